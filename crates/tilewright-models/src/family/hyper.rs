//! The sizes and numbers of a model, from the metadata of its file.

use super::Options;
use crate::gguf::{Error, Gguf};

/// The most of any size that a file may state.
const LARGEST: u64 = 1 << 24;

/// How the rotation of positions pairs the `n` rotated elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Neighbours: `2i` with `2i + 1`.
    Neighbours,
    /// Halves: `i` with `i + n / 2`.
    Halves,
}

/// The rotation of queries and keys by their position.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Which elements form a pair.
    pub style: RopeStyle,
    /// How many elements of a head are rotated; the others stay.
    pub size: i64,
    /// Pair `i` turns by `position · base^(-2i / size) / factor[i]`.
    pub base: f64,
    /// What frequencies are divided by, one for each pair.
    pub factors: Vec<f64>,
}

impl Rope {
    /// The angle of each of `head` elements at position 1, and its partner. The sine that goes with the partner is
    /// negative for the first of a pair.
    pub fn table(&self, head: i64) -> Vec<(f64, i64)> {
        let half = self.size / 2;
        let entry = |k: i64| {
            if k >= half * 2 {
                return (0.0, k);
            }
            let (pair, first) = match self.style {
                RopeStyle::Neighbours => (k / 2, k % 2 == 0),
                RopeStyle::Halves => (k % half, k < half),
            };
            let distance = if self.style == RopeStyle::Neighbours { 1 } else { half };
            let partner = if first { k + distance } else { k - distance };
            let factor = self.factors.get(pair as usize).copied().unwrap_or(1.0);
            let angle = self.base.powf(-2.0 * pair as f64 / self.size as f64) / factor;
            // The turn of a pair is (a cos - b sin, b cos + a sin): the first takes its partner with the other sign.
            (if first { -angle } else { angle }, partner)
        };
        (0..head).map(entry).collect()
    }
}

/// The sizes and numbers of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyper {
    /// Layers that the program has.
    pub layers: i64,
    /// Elements of the residual stream.
    pub width: i64,
    /// Key and value heads.
    pub kv_heads: i64,
    /// Query heads for each key and value head.
    pub group: i64,
    /// Elements of a head.
    pub head: i64,
    /// Elements inside a feed-forward part.
    pub ffn: i64,
    /// Tokens of the vocabulary.
    pub vocabulary: i64,
    /// The most tokens that the model was made for.
    pub context: i64,
    /// What is added to the mean square in a norm.
    pub epsilon: f64,
    /// What scores are multiplied by.
    pub scale: f64,
    /// The rotation of positions.
    pub rope: Rope,
}

impl Hyper {
    /// The sizes of a file.
    ///
    /// # Errors
    /// Names the key that is missing, or whose value no model can have.
    pub fn read(gguf: &Gguf, architecture: &str, style: RopeStyle, options: Options) -> Result<Hyper, Error> {
        let keys = Keys { gguf, architecture };
        let width = keys.need("embedding_length")?;
        let heads = keys.need("attention.head_count")?;
        let kv_heads = keys.size("attention.head_count_kv")?.unwrap_or(heads);
        if heads % kv_heads != 0 {
            let message = format!("{heads} query heads are no multiple of {kv_heads}");
            return Err(keys.wrong("attention.head_count_kv", message));
        }
        let head = match keys.size("attention.key_length")? {
            Some(size) => size,
            None if width % heads == 0 => width / heads,
            None => return Err(gguf.missing(&keys.name("attention.key_length"))),
        };
        if keys.size("attention.value_length")?.is_some_and(|size| size != head) {
            return Err(keys.wrong("attention.value_length", format!("{head}, as for keys, can be computed")));
        }
        let layers = keys.need("block_count")?;
        let layers = options.layers.map_or(layers, |most| layers.min(most as i64));
        let embedding = gguf.tensor("token_embd.weight");
        let embedding =
            embedding.ok_or_else(|| gguf.tensor_error("token_embd.weight", "the file lacks it"))?;
        let vocabulary = embedding.shape().first().copied().unwrap_or(0) as i64;
        let scale = gguf.float(&keys.name("attention.scale"))?;
        Ok(Hyper {
            layers,
            width,
            kv_heads,
            group: heads / kv_heads,
            head,
            ffn: keys.need("feed_forward_length")?,
            vocabulary,
            context: keys.size("context_length")?.unwrap_or(2048),
            epsilon: keys.positive("attention.layer_norm_rms_epsilon", None)?,
            scale: scale.unwrap_or((head as f64).powf(-0.5)),
            rope: keys.rope(style, head)?,
        })
    }
}

/// The keys of an architecture.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn wrong(&self, key: &str, message: impl Into<String>) -> Error {
        self.gguf.key_error(&self.name(key), message)
    }

    /// A size of at least 1.
    fn size(&self, key: &str) -> Result<Option<i64>, Error> {
        match self.gguf.uint(&self.name(key))? {
            None => Ok(None),
            Some(size @ 1..=LARGEST) => Ok(Some(size as i64)),
            Some(size) => Err(self.wrong(key, format!("{size}; a size is in 1..={LARGEST}"))),
        }
    }

    fn need(&self, key: &str) -> Result<i64, Error> {
        self.size(key)?.ok_or_else(|| self.gguf.missing(&self.name(key)))
    }

    /// A finite number above 0.
    fn positive(&self, key: &str, default: Option<f64>) -> Result<f64, Error> {
        match self.gguf.float(&self.name(key))?.or(default) {
            Some(x) if x.is_finite() && x > 0.0 => Ok(x),
            Some(x) => Err(self.wrong(key, format!("{x}; a finite number above 0 is right"))),
            None => Err(self.gguf.missing(&self.name(key))),
        }
    }

    fn rope(&self, style: RopeStyle, head: i64) -> Result<Rope, Error> {
        let size = self.size("rope.dimension_count")?.unwrap_or(head);
        if size > head || size % 2 != 0 {
            return Err(
                self.wrong("rope.dimension_count", format!("{size} of {head}; an even part is right"))
            );
        }
        let mut factors = vec![1.0; (size / 2) as usize];
        match self.gguf.str(&self.name("rope.scaling.type"))? {
            None | Some("none") => {}
            Some("linear") => factors.fill(self.positive("rope.scaling.factor", Some(1.0))?),
            Some(other) => {
                let message = format!("`{}`; none and linear can be computed", crate::gguf::shown(other));
                return Err(self.wrong("rope.scaling.type", message));
            }
        }
        if let Some(tensor) = self.gguf.tensor("rope_freqs.weight") {
            let values: Vec<f64> = (tensor.bytes.chunks_exact(4))
                .map(|x| f64::from(f32::from_le_bytes([x[0], x[1], x[2], x[3]])))
                .collect();
            let right = tensor.format.name == "F32" && values.len() == factors.len();
            if !right || values.iter().any(|x| !x.is_finite() || *x <= 0.0) {
                let message = format!("{} finite F32 numbers above 0 are right", factors.len());
                return Err(self.gguf.tensor_error(tensor.name, message));
            }
            factors.iter_mut().zip(values).for_each(|(factor, x)| *factor *= x);
        }
        Ok(Rope { style, size, base: self.positive("rope.freq_base", Some(10_000.0))?, factors })
    }
}
