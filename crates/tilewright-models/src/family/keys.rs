//! The keys of an architecture in a file's metadata.

use super::hyper::{Experts, Rope, RopeStyle};
use crate::gguf::{Error, Gguf};

/// The most of any size that a file may state.
const LARGEST: u64 = 1 << 24;

/// The keys of an architecture.
pub struct Keys<'a> {
    /// The file.
    pub gguf: &'a Gguf,
    /// What its keys begin with.
    pub architecture: &'a str,
}

impl Keys<'_> {
    /// A key with the architecture before it.
    pub fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// An error at a key.
    pub fn wrong(&self, key: &str, message: impl Into<String>) -> Error {
        self.gguf.key_error(&self.name(key), message)
    }

    /// A size of at least 1.
    pub fn size(&self, key: &str) -> Result<Option<i64>, Error> {
        match self.gguf.uint(&self.name(key))? {
            None => Ok(None),
            Some(size @ 1..=LARGEST) => Ok(Some(size as i64)),
            Some(size) => Err(self.wrong(key, format!("{size}; a size is in 1..={LARGEST}"))),
        }
    }

    /// A size that must be there.
    pub fn need(&self, key: &str) -> Result<i64, Error> {
        self.size(key)?.ok_or_else(|| self.gguf.missing(&self.name(key)))
    }

    /// A finite number above 0.
    pub fn positive(&self, key: &str, default: Option<f64>) -> Result<f64, Error> {
        match self.gguf.float(&self.name(key))?.or(default) {
            Some(x) if x.is_finite() && x > 0.0 => Ok(x),
            Some(x) => Err(self.wrong(key, format!("{x}; a finite number above 0 is right"))),
            None => Err(self.gguf.missing(&self.name(key))),
        }
    }

    /// A finite number above 0, or none if the key is missing or 0.
    pub fn cap(&self, key: &str) -> Result<Option<f64>, Error> {
        match self.gguf.float(&self.name(key))? {
            None | Some(0.0) => Ok(None),
            Some(_) => self.positive(key, None).map(Some),
        }
    }

    /// The rotation of a head of `head` elements.
    pub fn rope(&self, style: RopeStyle, head: i64) -> Result<Rope, Error> {
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

    /// The experts of a file that has some.
    pub fn experts(&self, normalised: bool) -> Result<Option<Experts>, Error> {
        let count = match self.gguf.uint(&self.name("expert_count"))? {
            None | Some(0) => return Ok(None),
            Some(_) => self.need("expert_count")?,
        };
        let used = self.need("expert_used_count")?;
        if used > count {
            return Err(self.wrong("expert_used_count", format!("{used} of {count} experts")));
        }
        // 1 is a softmax over all experts.
        if let Some(other @ (0 | 2..)) = self.gguf.uint(&self.name("expert_gating_func"))? {
            return Err(self.wrong("expert_gating_func", format!("{other}; 1, a softmax, can be computed")));
        }
        if self.cap("expert_weights_scale")?.is_some_and(|scale| scale != 1.0) {
            return Err(self.wrong("expert_weights_scale", "1 can be computed"));
        }
        let normalised = self.gguf.bool(&self.name("expert_weights_norm"))?.unwrap_or(normalised);
        Ok(Some(Experts { count, used, normalised, shared: None }))
    }
}
