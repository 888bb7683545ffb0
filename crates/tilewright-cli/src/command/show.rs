//! Numbers, times, shapes and tables as text.

use serde_json::{Value, json};
use std::time::Duration;
use tilewright::host::HostTensor;
use tilewright::tensor::Scalar;

/// A tensor's type, such as `f32[2, 3]`.
pub fn shape(tensor: &HostTensor) -> String {
    format!("{}{:?}", tensor.dtype(), tensor.extents())
}

/// A time with three digits or so.
pub fn time(time: Duration) -> String {
    match time.as_secs_f64() * 1e3 {
        ms if ms >= 1e3 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 1.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.3} ms"),
    }
}

/// Bytes in the largest unit of which there is at least one.
pub fn bytes(bytes: u64) -> String {
    let units = [(60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// A number with six digits, as C's `%g`.
pub fn number(x: f64) -> String {
    if !x.is_finite() || x == 0.0 {
        return if x.is_nan() { "NaN".to_string() } else { format!("{x}") };
    }
    let exponent = x.abs().log10().floor();
    if !(-5.0..6.0).contains(&exponent) {
        return format!("{x:.5e}");
    }
    let digits = (5.0 - exponent).max(0.0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// An error with two digits; 0 is `exact`.
pub fn error(x: f64) -> String {
    if x == 0.0 {
        "exact".to_string()
    } else if x.is_finite() {
        format!("{x:.1e}")
    } else {
        "infinite".to_string()
    }
}

/// The least number of two digits that is not below `x`.
pub fn rounded_up(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = x.abs().log10().floor() as i32 - 1;
    (0..3)
        .filter_map(|more| {
            let digits = (x / 10f64.powi(exponent)).floor() + f64::from(more);
            format!("{digits}e{exponent}").parse().ok()
        })
        .find(|&rounded: &f64| rounded >= x)
        .unwrap_or(x)
}

/// An element.
pub fn scalar(scalar: Scalar) -> String {
    match scalar {
        Scalar::Float(x) => number(x),
        Scalar::Int(x) => x.to_string(),
        Scalar::Bool(x) => x.to_string(),
    }
}

/// A number, or the text of one that JSON does not have.
pub fn json_number(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!(number(x)) }
}

/// An element; a number that JSON does not have is a text.
pub fn json_scalar(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Float(x) => json_number(x),
        Scalar::Int(x) => json!(x),
        Scalar::Bool(x) => json!(x),
    }
}

/// Milliseconds.
pub fn json_time(time: Duration) -> Value {
    json!(time.as_secs_f64() * 1e3)
}

/// Columns, each as wide as its widest cell, two spaces apart and indented by two; `right` says which columns are
/// aligned to the right.
pub fn table(rows: &[Vec<String>], right: &[bool]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| {
        rows.iter().filter_map(|row| row.get(k)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (k, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let right = right.get(k).copied().unwrap_or(false);
            line.push_str(&if right { format!("  {cell:>width$}") } else { format!("  {cell:<width$}") });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Memory in bytes, as far as it is known.
pub struct Memory {
    /// All of the machine.
    pub total: Option<u64>,
    /// What programs can have without swapping.
    pub available: Option<u64>,
    /// What the control group may have.
    pub limit: Option<u64>,
    /// What the control group has.
    pub used: Option<u64>,
}

impl Memory {
    /// Looks at the machine.
    pub fn detect() -> Memory {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let group = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
            text.trim().parse().ok()
        };
        Memory {
            total: field(&meminfo, "MemTotal:"),
            available: field(&meminfo, "MemAvailable:"),
            limit: group("memory.max"),
            used: group("memory.current"),
        }
    }

    /// What this process can still have.
    pub fn free(&self) -> Option<u64> {
        let group = self.limit.map(|limit| limit.saturating_sub(self.used.unwrap_or(0)));
        match (self.available, group) {
            (Some(available), Some(group)) => Some(available.min(group)),
            (available, group) => available.or(group),
        }
    }
}

/// A line of `/proc/meminfo`, which counts in kB of 1024 bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.1, "0.1"),
            (1234.5678, "1234.57"),
            (1.0 / 3.0, "0.333333"),
            (1e9, "1.00000e9"),
            (-2.5e-7, "-2.50000e-7"),
            (999999.9, "1000000"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
    }

    #[test]
    fn errors_are_rounded_up() {
        for (x, up) in [(1.23e-7, 1.3e-7), (9.99e-3, 1e-2), (0.5, 0.5), (1.0, 1.0), (0.0, 0.0), (3e-8, 3e-8)]
        {
            assert_eq!(rounded_up(x), up, "{x}");
        }
        for k in 1..2000 {
            let x = f64::from(k).sqrt() * 1e-6;
            assert!(rounded_up(x) >= x && rounded_up(x) < x * 1.11, "{x}");
        }
    }

    #[test]
    fn units_and_times() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(time(Duration::from_micros(1500)), "1.5 ms");
        assert_eq!(time(Duration::from_micros(15)), "0.015 ms");
        assert_eq!(time(Duration::from_millis(1440)), "1.4 s");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_string(), "1".into()], vec!["bcd".into(), "23".into()]];
        assert_eq!(table(&rows, &[false, true]), "  a     1\n  bcd  23\n");
    }

    #[test]
    fn meminfo_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:       24000 kB\nMemFree:          12 kB\nMemAvailable:  20000 kB\n";
        assert_eq!(field(text, "MemTotal:"), Some(24000 * 1024));
        assert_eq!(field(text, "MemAvailable:"), Some(20000 * 1024));
        assert_eq!(field(text, "Swap:"), None);
    }
}
