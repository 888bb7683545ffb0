//! How many workers this process should have, and what the processor can do.

use std::fs;

/// What was found of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores {
    /// Processors that this process may run on at the same time: affinity and cgroup quota both counted.
    pub available: usize,
    /// The quota of the control group in processors, where there is one.
    pub quota: Option<f64>,
    /// The vector extensions that the processor has, of those that matter here.
    pub features: Vec<&'static str>,
}

impl Cores {
    /// Looks at the machine.
    pub fn detect() -> Cores {
        Cores {
            available: std::thread::available_parallelism().map_or(1, usize::from),
            quota: quota(fs::read_to_string("/sys/fs/cgroup/cpu.max").ok().as_deref()),
            features: features(),
        }
    }
}

/// The quota that the text of `cpu.max` states: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn quota(text: Option<&str>) -> Option<f64> {
    let mut words = text?.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let found = [
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("fma", std::is_x86_feature_detected!("fma")),
        ("f16c", std::is_x86_feature_detected!("f16c")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
        ("avx512vl", std::is_x86_feature_detected!("avx512vl")),
        ("avx512bf16", std::is_x86_feature_detected!("avx512bf16")),
        ("avx512vnni", std::is_x86_feature_detected!("avx512vnni")),
    ];
    found.into_iter().filter(|&(_, has)| has).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_the_kernel_writes_them() {
        assert_eq!(quota(Some("200000 100000\n")), Some(2.0));
        assert_eq!(quota(Some("50000 100000")), Some(0.5));
        assert_eq!(quota(Some("max 100000")), None);
        assert_eq!(quota(Some("")), None);
        assert_eq!(quota(None), None);
    }

    #[test]
    fn at_least_one_processor_is_available() {
        assert!(Cores::detect().available >= 1);
    }
}
