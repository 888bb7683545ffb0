//! Helpers of the builder on lanes of 8 to 64 bits: machine code, evaluator and plain Rust agree at every level.

use super::programs::both;
use crate::machine::*;

/// A stream of numbers (splitmix).
fn number(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 512 bytes.
fn random(seed: u64) -> Vec<u8> {
    (0..64).flat_map(|i| number(seed * 64 + i).to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn longs(bytes: &[u8]) -> Vec<u64> {
    words(bytes).chunks_exact(2).map(|c| u64::from(c[0]) | u64::from(c[1]) << 32).collect()
}

/// A program of what `build` makes of the addresses of buffers 0 and 1, run both ways; gives buffer 1.
fn run(level: Level, x: &[u8], out: usize, build: impl Fn(&mut Builder, ValueId, ValueId)) -> Vec<u8> {
    let mut b = Builder::new("helper", level);
    let [context, _] = b.entry();
    let (from, to) = (b.load64(Mem::at(context, 0)), b.load64(Mem::at(context, 8)));
    build(&mut b, from, to);
    let ok = b.imm(0);
    b.ret(ok);
    both(&b.finish().unwrap(), &[x.to_vec(), vec![0xaa; out]]).1.remove(1)
}

/// What `f` makes of lanes of two vectors, against `expected` of each pair of 32-bit lanes.
fn lanes(
    name: &str,
    f: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId,
    expected: impl Fn(u32, u32) -> u32,
) {
    for level in Level::available() {
        let n = level.width().lanes();
        for seed in 0..8 {
            let mut x = random(seed);
            if seed % 2 == 1 {
                // Small numbers, equal ones and special floats among them.
                let special = [0, 1, 2, 31, 32, 33, u32::MAX, 1 << 31, 0x7f80_0000, 0x7fc0_0000, 0x4f00_0000];
                let value = |i: usize| special[(number(seed + i as u64) % 11) as usize];
                x = (0..128).flat_map(|i| value(i).to_le_bytes()).collect();
            }
            let out = run(level, &x, 64, |b, from, to| {
                let (p, q) = (b.load(Mem::at(from, 0)), b.load(Mem::at(from, 64)));
                let value = f(b, p, q);
                b.store(Mem::at(to, 0), value);
            });
            for i in 0..n {
                let (p, q) = (words(&x)[i], words(&x)[16 + i]);
                assert_eq!(words(&out)[i], expected(p, q), "{name} {level} lane {i}: {p:#x} {q:#x}");
            }
        }
    }
}

/// The same for lanes of 64 bits.
fn wides(
    name: &str,
    f: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId,
    expected: impl Fn(u64, u64) -> u64,
) {
    for level in Level::available() {
        for seed in 0..8 {
            let mut x = random(seed + 100);
            if seed % 2 == 1 {
                let special = [0, 1, 5, 63, 64, 65, u64::MAX, 1 << 63, 0x7ff8 << 48, 0x4010 << 48, 1 << 31];
                let value = |i: usize| special[(number(seed + i as u64) % 11) as usize];
                x = (0..64).flat_map(|i| value(i).to_le_bytes()).collect();
            }
            let out = run(level, &x, 64, |b, from, to| {
                let (p, q) = (b.load(Mem::at(from, 0)), b.load(Mem::at(from, 64)));
                let value = f(b, p, q);
                b.store(Mem::at(to, 0), value);
            });
            for i in 0..level.width().lanes() / 2 {
                let (p, q) = (longs(&x)[i], longs(&x)[8 + i]);
                assert_eq!(longs(&out)[i], expected(p, q), "{name} {level} lane {i}: {p:#x} {q:#x}");
            }
        }
    }
}

fn truth(b: &mut Builder, mask: Mask) -> ValueId {
    let (one, zero) = (b.splat_bits(1), b.splat_bits(0));
    b.blend(mask, one, zero)
}

#[test]
fn integers_of_32_bits() {
    use Compare::*;
    let holds = |how: Compare, a: i32, b: i32| match how {
        Equal => a == b,
        Less => a < b,
        LessEqual => a <= b,
        Unordered => false,
        NotEqual => a != b,
        GreaterEqual => a >= b,
        Greater => a > b,
    };
    for how in [Equal, Less, LessEqual, Unordered, NotEqual, GreaterEqual, Greater] {
        lanes(
            &format!("{how:?}"),
            |b, p, q| {
                let mask = b.compare_i32(how, p, q);
                truth(b, mask)
            },
            |p, q| holds(how, p as i32, q as i32).into(),
        );
    }
    lanes("abs", |b, p, _| b.abs_i32(p), |p, _| (p as i32).unsigned_abs());
    lanes("min", |b, p, q| b.min_u32(p, q), u32::min);
    lanes("max", |b, p, q| b.max_u32(p, q), u32::max);
    lanes("shl", |b, p, q| b.shl_each(p, q), |p, q| p.checked_shl(q).unwrap_or(0));
    lanes("shr", |b, p, q| b.shr_each(p, q), |p, q| p.checked_shr(q).unwrap_or(0));
    lanes("sar", |b, p, q| b.sar_each(p, q), |p, q| ((p as i32) >> q.min(31)) as u32);
    let nibble = |p: u32, which: u32| p >> (4 * which) & 0x0f0f_0f0f;
    lanes("low nibbles", |b, p, _| b.nibbles(p).0, |p, _| nibble(p, 0));
    lanes("high nibbles", |b, p, _| b.nibbles(p).1, |p, _| nibble(p, 1));
    let bytes = |p: u32, q: u32, f: fn(u8, u8) -> u8| {
        let (p, q) = (p.to_le_bytes(), q.to_le_bytes());
        u32::from_le_bytes(std::array::from_fn(|i| f(p[i], q[i])))
    };
    lanes("add bytes", |b, p, q| b.add_i8(p, q), |p, q| bytes(p, q, u8::wrapping_add));
    lanes("sub bytes", |b, p, q| b.sub_i8(p, q), |p, q| bytes(p, q, u8::wrapping_sub));
    let table: [u32; 16] = std::array::from_fn(|i| number(i as u64) as u32);
    lanes(
        "a table of 16",
        |b, p, _| {
            let values = b.table_16(table);
            b.look_up_16(&values, p)
        },
        |p, _| table[p as usize % 16],
    );
    let dot = |p: u32, q: u32| {
        let terms = p.to_le_bytes().into_iter().zip(q.to_le_bytes());
        terms.map(|(p, q)| i32::from(p % 128) * i32::from(q as i8)).sum::<i32>() as u32
    };
    lanes(
        "dot of bytes",
        |b, p, q| {
            let (zero, p) = (b.splat_bits(0), b.and_bits(p, Arg::Splat(0x7f7f_7f7f)));
            b.dot_bytes(zero, p, q)
        },
        dot,
    );
}

#[test]
fn masks_are_combined_and_made_from_bits() {
    let odd = |b: &mut Builder, p: ValueId| {
        let bit = b.and_bits(p, Arg::Splat(1));
        b.nonzero_i32(bit)
    };
    lanes(
        "odd",
        |b, p, _| {
            let m = odd(b, p);
            truth(b, m)
        },
        |p, _| p & 1,
    );
    lanes(
        "not",
        |b, p, _| {
            let m = odd(b, p);
            let m = b.mask_not(m);
            truth(b, m)
        },
        |p, _| !p & 1,
    );
    let both = |b: &mut Builder, p, q| (odd(b, p), odd(b, q));
    lanes(
        "without",
        |b, p, q| {
            let (m, n) = both(b, p, q);
            let m = b.mask_without(m, n);
            truth(b, m)
        },
        |p, q| p & !q & 1,
    );
    lanes(
        "xor",
        |b, p, q| {
            let (m, n) = both(b, p, q);
            let m = b.mask_xor(m, n);
            truth(b, m)
        },
        |p, q| (p ^ q) & 1,
    );
    lanes(
        "bits and back",
        |b, p, _| {
            let m = odd(b, p);
            let bits = b.mask_bits(m);
            let m = b.mask_from_bits(bits);
            let m = b.mask_not(m);
            let all = b.mask_all();
            let m = b.mask_without(all, m);
            truth(b, m)
        },
        |p, _| p & 1,
    );
}

#[test]
fn floats_are_compared_and_cut_as_the_language_says() {
    let f = f32::from_bits;
    let nan = |x: u32| f(x).is_nan();
    let pick = |take_first: bool, p: u32, q: u32| if take_first { p } else { q };
    lanes("lesser", |b, p, q| b.lesser_f32(p, q), |p, q| pick(!nan(q) && (nan(p) || f(p) <= f(q)), p, q));
    lanes("greater", |b, p, q| b.greater_f32(p, q), |p, q| pick(!nan(q) && (nan(p) || f(p) >= f(q)), p, q));
    lanes("saturating", |b, p, _| b.f32_to_i32_saturating(p), |p, _| f(p) as i32 as u32);
    lanes(
        "f16",
        |b, p, _| b.f16_bits_to_f32(p),
        |p, _| {
            let value = half::f16::from_bits(p as u16);
            value.to_f32().to_bits() | if value.is_nan() { 0x0040_0000 } else { 0 }
        },
    );
    lanes("to f16", |b, p, _| b.f32_to_f16_bits(p), |p, _| half::f16::from_f32(f(p)).to_bits().into());
    lanes("to bf16", |b, p, _| b.f32_to_bf16_bits(p), |p, _| half::bf16::from_f32(f(p)).to_bits().into());
}

#[test]
fn narrow_elements_are_loaded_and_stored_and_nothing_else_is_touched() {
    let element = |kind: Narrow, x: &[u8], at: usize| match kind {
        Narrow::U8 => x[at].into(),
        Narrow::I8 => x[at] as i8 as i32 as u32,
        Narrow::U16 => u16::from_le_bytes([x[at], x[at + 1]]).into(),
        Narrow::I16 => i16::from_le_bytes([x[at], x[at + 1]]) as i32 as u32,
        Narrow::Bf16 => u32::from(u16::from_le_bytes([x[at], x[at + 1]])) << 16,
    };
    for level in Level::available() {
        let n = level.width().lanes();
        for kind in Narrow::ALL {
            let size = kind.bytes() as usize;
            for count in [0, 1, 2, n - 1, n] {
                // The buffers end with the last element.
                let x = random(count as u64)[..(count * size).max(4)].to_vec();
                let out = run(level, &x, count * size + 64, |b, from, to| {
                    let count = b.imm(count as i64);
                    let on = b.first_lanes(count);
                    let value = b.load_narrow_masked(kind, Mem::at(from, 0), on);
                    b.store(Mem::at(to, 0), value);
                    let bits = if kind == Narrow::Bf16 { b.shr_u32(value, 16) } else { value };
                    b.store_narrow_masked(size as u8, Mem::at(to, 64), bits, on);
                });
                for i in 0..n {
                    let expected = if i < count { element(kind, &x, i * size) } else { 0 };
                    assert_eq!(words(&out)[i], expected, "{level} {kind:?} {count} lane {i}");
                }
                assert_eq!(out[64..], x[..count * size], "{level} {kind:?} {count}");
            }
            let x = random(77)[..64].to_vec();
            let out = run(level, &x, 256, |b, from, to| {
                let value = b.load_narrow(kind, Mem::at(from, 4));
                b.store(Mem::at(to, 0), value);
                let one = b.broadcast_narrow(kind, Mem::at(from, 6));
                b.store(Mem::at(to, 64), one);
                b.store_narrow(1, Mem::at(to, 128), value);
                b.store_narrow(2, Mem::at(to, 192), value);
            });
            for i in 0..n {
                let value = element(kind, &x, 4 + i * size);
                assert_eq!(words(&out)[i], value, "{level} {kind:?} lane {i}");
                assert_eq!(words(&out)[16 + i], element(kind, &x, 6), "{level} {kind:?} lane {i}");
                assert_eq!(out[128 + i], value as u8);
                assert_eq!(out[192 + 2 * i..194 + 2 * i], (value as u16).to_le_bytes());
            }
            let x = random(78)[..41].to_vec();
            let index = |i: usize| (number(i as u64) as usize % (41 - size + 1)) as u32;
            let out = run(level, &x, 64, |b, from, to| {
                let indices = (0..16).flat_map(|i| index(i).to_le_bytes()).collect();
                let indices = b.constant(indices);
                let indices = b.load(Mem::constant(indices));
                let (last, all) = (b.splat_bits(37), b.mask_all());
                let value = b.gather_narrow(kind, from, indices, last, all);
                b.store(Mem::at(to, 0), value);
            });
            for i in 0..n {
                let expected = element(kind, &x, index(i) as usize);
                assert_eq!(words(&out)[i], expected, "{level} {kind:?} lane {i}");
            }
        }
        let x = random(5)[..2].to_vec();
        let out = run(level, &x, 64, |b, from, to| {
            let value = b.broadcast_f16(Mem::at(from, 0));
            b.store(Mem::at(to, 0), value);
        });
        let expected = half::f16::from_le_bytes([x[0], x[1]]).to_f32();
        assert!(words(&out)[..n].iter().all(|bits| *bits == expected.to_bits()));
    }
}

#[test]
fn lanes_are_scattered_in_order() {
    for level in Level::available() {
        let n = level.width().lanes();
        let x = random(3);
        let index = |i: usize| number(i as u64) as usize % 24;
        let out = run(level, &x, 24 * 4, |b, from, to| {
            let indices = (0..16).flat_map(|i| (index(i) as u32).to_le_bytes()).collect();
            let indices = b.constant(indices);
            let (indices, value) = (b.load(Mem::constant(indices)), b.load(Mem::at(from, 0)));
            let count = b.imm(n as i64 - 2);
            let on = b.first_lanes(count);
            b.scatter(to, indices, 4, value, on);
        });
        let mut expected = vec![0xaaaa_aaaa; 24];
        (0..n - 2).for_each(|i| expected[index(i)] = words(&x)[i]);
        assert_eq!(words(&out), expected, "{level}");
    }
}

#[test]
fn lanes_of_64_bits() {
    wides("add", |b, p, q| b.add_i64(p, q), u64::wrapping_add);
    wides("sub", |b, p, q| b.sub_i64(p, q), u64::wrapping_sub);
    wides("mul", |b, p, q| b.mul_i64(p, q), u64::wrapping_mul);
    wides("shl", |b, p, q| b.shl_each_i64(p, q), |p, q| if q < 64 { p << q } else { 0 });
    wides("shr", |b, p, q| b.shr_each_u64(p, q), |p, q| if q < 64 { p >> q } else { 0 });
    for count in [0, 1, 33, 63] {
        wides("sar", |b, p, _| b.sar_i64(p, count), |p, _| ((p as i64) >> count) as u64);
        wides("shr", |b, p, _| b.shr_u64(p, count), |p, _| p >> count);
    }
    let chosen = |b: &mut Builder, mask, p, q| b.blend_wide(mask, p, q);
    wides(
        "greater",
        |b, p, q| {
            let m = b.greater_i64(p, q);
            chosen(b, m, p, q)
        },
        |p, q| (p as i64).max(q as i64) as u64,
    );
    wides(
        "equal",
        |b, p, q| {
            let (m, zero) = (b.equal_i64(p, q), b.splat_bits64(7));
            chosen(b, m, zero, q)
        },
        |p, q| if p == q { 7 } else { q },
    );
    let f = f64::from_bits;
    wides(
        "less",
        |b, p, q| {
            let m = b.compare_f64(Compare::Less, p, q);
            chosen(b, m, p, q)
        },
        |p, q| if f(p) < f(q) { p } else { q },
    );
    wides(
        "narrow and widen",
        |b, p, _| {
            let low = b.narrow_to_32(p);
            b.i32_to_i64(low)
        },
        |p, _| p as i32 as i64 as u64,
    );
    for level in Level::available() {
        let n = level.width().lanes() / 2;
        let x = random(9);
        for count in [0, 1, n - 1, n] {
            let out = run(level, &x[..count * 8 + 8], 64 + count * 8 + 8, |b, from, to| {
                let c = b.imm(count as i64);
                let on = b.first_wide_lanes(c);
                let value = b.load_wide_masked(Mem::at(from, 0), on);
                b.store(Mem::at(to, 0), value);
                b.store_wide_masked(Mem::at(to, 64), value, on);
                let bits = b.wide_mask_bits(on);
                let sum = b.fold_wide(value, |b, p, q| b.add_i64(p, q));
                let sum = b.first_wide_lane(sum);
                let both = b.add(bits, sum);
                b.store_general(8, Mem::at(to, 64 + 8 * count as i32), both);
            });
            let values = &longs(&x)[..count];
            let sum = values.iter().fold((1 << count) - 1, |sum: u64, value| sum.wrapping_add(*value));
            assert_eq!(longs(&out)[8..], [values, &[sum]].concat(), "{level} {count}");
            assert_eq!(longs(&out)[..count], *values);
        }
        let out = run(level, &x, 64, |b, from, to| {
            let index: Vec<u8> = (0..16_u32).flat_map(|i| (63 - 7 * (i % 8)).to_le_bytes()).collect();
            let index = b.constant(index);
            let index = b.load(Mem::constant(index));
            let (on, off) = (b.imm(n as i64), b.splat_f64(0.0));
            let on = b.first_wide_lanes(on);
            let value = b.gather_wide(from, index, 8, on, off);
            b.store(Mem::at(to, 0), value);
        });
        (0..n).for_each(|i| assert_eq!(longs(&out)[i], longs(&x)[63 - 7 * i]));
    }
}

#[test]
fn an_address_is_what_it_says() {
    let Some(level) = Level::detect() else { return };
    let out = run(level, &random(1), 64, |b, _, to| {
        let (base, index) = (b.imm(1 << 40), b.imm(-3));
        let cases = [
            Mem::at(base, 0),
            Mem::at(base, -77),
            Mem::at(base, 1 << 20),
            Mem::indexed(base, index, 1, 0),
            Mem::indexed(base, index, 2, 5),
            Mem::indexed(base, index, 4, -(1 << 20)),
            Mem::indexed(base, index, 8, 127),
        ];
        for (i, mem) in cases.into_iter().enumerate() {
            let at = b.lea(mem);
            b.store_general(8, Mem::at(to, 8 * i as i32), at);
        }
        // The address of a constant: what lies there is found again.
        let constant = b.constant(0x1234_5678_u32.to_le_bytes().to_vec());
        let at = b.lea(Mem::constant(constant));
        let value = b.load32(Mem::at(at, 0));
        b.store_general(8, Mem::at(to, 56), value);
    });
    let base = 1_i64 << 40;
    let expected = [0, -77, 1 << 20, -3, -1, -12 - (1 << 20), 103].map(|d: i64| (base + d) as u64);
    assert_eq!(longs(&out)[..7], expected);
    assert_eq!(longs(&out)[7], 0x1234_5678);
}
