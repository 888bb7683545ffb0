//! The numbers in the blocks of GGUF files, exactly: products and sums of these widths fit in `f64`.

fn half(bytes: &[u8], at: usize) -> f64 {
    half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64()
}

/// The 6-bit scale and minimum of each 32 of 256 elements, from 12 bytes.
fn scales(bytes: &[u8]) -> [(f64, f64); 8] {
    std::array::from_fn(|k| match k {
        0..4 => (f64::from(bytes[k] & 63), f64::from(bytes[k + 4] & 63)),
        _ => {
            let scale = bytes[k + 4] & 15 | bytes[k - 4] >> 6 << 4;
            let least = bytes[k + 4] >> 4 | bytes[k] >> 6 << 4;
            (f64::from(scale), f64::from(least))
        }
    })
}

/// All numbers of a tensor's bytes.
pub fn numbers(format: &str, bytes: &[u8]) -> Vec<f64> {
    let blocks = |size: usize, element: &dyn Fn(&[u8], usize) -> f64, count: usize| {
        let block = |block: &[u8]| (0..count).map(|k| element(block, k)).collect::<Vec<_>>();
        bytes.chunks_exact(size).flat_map(block).collect()
    };
    // 32 elements of 4 bits: the low halves of 16 bytes, then the high ones.
    let nibble = |bytes: &[u8], k: usize| f64::from(bytes[k % 16] >> (k / 16 * 4) & 15);
    match format {
        "F32" => blocks(4, &|b, _| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])), 1),
        "F16" => blocks(2, &|b, _| half(b, 0), 1),
        "Q4_1" => blocks(20, &|b, k| half(b, 0) * nibble(&b[4..], k) + half(b, 2), 32),
        "Q8_0" => blocks(34, &|b, k| half(b, 0) * f64::from(b[2 + k] as i8), 32),
        "Q5_0" => {
            let fifth = |b: &[u8], k: usize| f64::from(b[2 + k / 8] >> (k % 8) & 1) * 16.0;
            blocks(22, &|b, k| half(b, 0) * (nibble(&b[6..], k) + fifth(b, k) - 16.0), 32)
        }
        "Q4_K" => blocks(
            144,
            &|b, k| {
                let (scale, least) = scales(&b[4..16])[k / 32];
                let four = b[16 + k / 64 * 32 + k % 32] >> (k / 32 % 2 * 4) & 15;
                half(b, 0) * scale * f64::from(four) - half(b, 2) * least
            },
            256,
        ),
        "Q6_K" => blocks(
            210,
            &|b, k| {
                // Two halves of 128 elements, each four rows of 32.
                let (part, row, column) = (k / 128, k % 128 / 32, k % 32);
                let low = b[part * 64 + row % 2 * 32 + column] >> (row / 2 * 4) & 15;
                let high = b[128 + part * 32 + column] >> (row * 2) & 3;
                let six = f64::from(low | high << 4) - 32.0;
                half(b, 208) * f64::from(b[192 + k / 16] as i8) * six
            },
            256,
        ),
        other => panic!("no numbers of {other}"),
    }
}
