//! The sizes and numbers of a model, from the metadata of its file.

use super::Options;
use super::keys::Keys;
use crate::gguf::Error;

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

/// A feed-forward part of several experts, of which a router chooses some for each token.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// How many there are.
    pub count: i64,
    /// How many serve a token.
    pub used: i64,
    /// Whether the shares of those that serve a token are scaled to sum 1.
    pub normalised: bool,
    /// Elements inside the expert that serves every token, where there is one.
    pub shared: Option<i64>,
}

/// Layers that see the latest tokens only, and have a rotation of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// How many tokens they see, the newest one counted.
    pub size: i64,
    /// The last of as many layers sees all tokens.
    pub period: i64,
    /// The rotation of these layers.
    pub rope: Rope,
}

impl Window {
    /// Whether a layer sees the latest tokens only.
    pub fn holds(&self, layer: i64) -> bool {
        layer % self.period != self.period - 1
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
    /// Elements inside a feed-forward part, or inside one expert.
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
    /// Layers with a window, where there are some.
    pub window: Option<Window>,
    /// Experts, where there are some.
    pub experts: Option<Experts>,
    /// What embeddings are multiplied by.
    pub embedding_scale: Option<f64>,
    /// A score `s` becomes `cap · tanh(s / cap)`.
    pub score_cap: Option<f64>,
    /// A logit `x` becomes `cap · tanh(x / cap)`.
    pub logit_cap: Option<f64>,
}

impl Hyper {
    /// The sizes that every family has.
    ///
    /// # Errors
    /// Names the key that is missing, or whose value no model can have.
    pub fn read(keys: &Keys<'_>, style: RopeStyle, options: Options) -> Result<Hyper, Error> {
        let gguf = keys.gguf;
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
            window: None,
            experts: None,
            embedding_scale: None,
            score_cap: None,
            logit_cap: None,
        })
    }
}
