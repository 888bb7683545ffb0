//! Which token comes next.

use clap::Args;

use super::Failure;

/// How a token is chosen.
#[derive(Clone, Debug, Args)]
pub struct Sampling {
    /// Divides the logits; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.0)]
    temp: f64,
    /// Only the K likeliest tokens; 0 for all
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// The fewest likeliest tokens whose probabilities sum to P
    #[arg(long, default_value_t = 1.0)]
    top_p: f64,
    /// Only tokens at least P times as likely as the likeliest
    #[arg(long, default_value_t = 0.0)]
    min_p: f64,
    /// Where random numbers start
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Chooses tokens, the same ones for the same seed.
pub struct Sampler {
    sampling: Sampling,
    state: u64,
}

impl Sampler {
    /// # Errors
    /// If a number is outside its range.
    pub fn new(sampling: &Sampling) -> Result<Sampler, Failure> {
        let Sampling { temp, top_p, min_p, seed, .. } = *sampling;
        if !(temp.is_finite() && temp >= 0.0) {
            return Err(Failure::usage(format!("--temp {temp}: 0 or more is right")));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(Failure::usage(format!("--top-p {top_p}: above 0 and up to 1 is right")));
        }
        if !(0.0..=1.0).contains(&min_p) {
            return Err(Failure::usage(format!("--min-p {min_p}: 0 to 1 is right")));
        }
        Ok(Sampler { sampling: sampling.clone(), state: seed })
    }

    /// The next token; of equal logits the first.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        let Sampling { temp, top_k, top_p, min_p, .. } = self.sampling;
        let mut best = 0;
        for (k, x) in logits.iter().enumerate() {
            if *x > logits[best] || logits[best].is_nan() {
                best = k;
            }
        }
        if temp == 0.0 || logits.is_empty() {
            return best as u32;
        }
        let greatest = f64::from(logits[best]);
        let weight = |x: f32| ((f64::from(x) - greatest) / temp).exp();
        let mut list: Vec<(u32, f64)> = logits
            .iter()
            .enumerate()
            .map(|(k, x)| (k as u32, weight(*x)))
            .filter(|(_, w)| *w > 0.0)
            .collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if top_k > 0 {
            list.truncate(top_k);
        }
        list.retain(|(_, w)| *w >= min_p);
        let total: f64 = list.iter().map(|(_, w)| w).sum();
        let mut sum = 0.0;
        let kept = list.iter().position(|(_, w)| {
            sum += w;
            sum >= top_p * total
        });
        list.truncate(kept.map_or(list.len(), |last| last + 1));
        let total: f64 = list.iter().map(|(_, w)| w).sum();
        let mut left = self.uniform() * total;
        for (id, w) in &list {
            left -= w;
            if left < 0.0 {
                return *id;
            }
        }
        list.last().map_or(best as u32, |(id, _)| *id)
    }

    /// A number in 0..1 (SplitMix64).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temp: f64, top_k: usize, top_p: f64, min_p: f64) -> Sampler {
        Sampler::new(&Sampling { temp, top_k, top_p, min_p, seed: 7 }).ok().unwrap()
    }

    fn seen(mut sampler: Sampler, logits: &[f32]) -> Vec<usize> {
        let mut counts = vec![0; logits.len()];
        (0..4000).for_each(|_| counts[sampler.choose(logits) as usize] += 1);
        counts
    }

    #[test]
    fn the_likeliest_without_temperature() {
        assert_eq!(sampler(0.0, 0, 1.0, 0.0).choose(&[1.0, 3.0, 3.0, f32::NEG_INFINITY]), 1);
    }

    #[test]
    fn frequencies_follow_probabilities_and_cuts_exclude() {
        let logits = [0.5f32, 0.25, 0.25, 0.0].map(f32::ln);
        let all = seen(sampler(1.0, 0, 1.0, 0.0), &logits);
        assert!((1850..2150).contains(&all[0]) && (850..1150).contains(&all[1]) && all[3] == 0, "{all:?}");
        assert_eq!(seen(sampler(1.0, 1, 1.0, 0.0), &logits), [4000, 0, 0, 0]);
        assert_eq!(seen(sampler(1.0, 0, 0.4, 0.0), &logits), [4000, 0, 0, 0]);
        assert_eq!(seen(sampler(1.0, 0, 0.7, 0.0), &logits)[2], 0);
        assert_eq!(seen(sampler(1.0, 0, 1.0, 0.6), &logits), [4000, 0, 0, 0]);
    }
}
