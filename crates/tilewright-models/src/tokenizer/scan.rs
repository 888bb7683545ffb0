//! Pre-tokenizers of byte-level vocabularies: how a text is cut into pieces, inside which tokens are formed.
//!
//! Each is defined by regular expressions, which stand beside the rows of [`TABLE`]; the scanners here match them in one
//! pass and in linear time.

use unicode_general_category::{GeneralCategory as G, get_general_category};

/// A pre-tokenizer, and what else its name says about a vocabulary.
#[derive(Debug)]
pub(super) struct Row {
    /// The values of `tokenizer.ggml.pre` that mean it.
    pub(super) names: &'static [&'static str],
    /// The cuts, each made inside the pieces of the one before.
    stages: &'static [Stage],
    /// Whether the text is brought to normal form C first.
    pub(super) composed: bool,
    /// Whether a piece that is a token is taken whole, whatever the merges say.
    pub(super) whole_pieces: bool,
    /// Whether a text begins with the BOS token where the file does not say.
    pub(super) bos: bool,
}

/// One cut of a text into pieces.
#[derive(Debug)]
enum Stage {
    /// Words, numbers, signs and space.
    Words(Words),
    /// Each character of a class is a piece.
    Each(fn(char) -> bool),
    /// Each longest run of characters of a class is a piece.
    Runs(fn(char) -> bool),
    /// Every three ASCII digits are a piece.
    Threes,
}

/// The two families of expressions for words.
#[derive(Debug)]
enum Words {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// With `n` digits: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|
    /// \s*[\r\n]+|\s+(?!\S)|\s+`
    Llama3 {
        /// The most digits of a piece.
        digits: usize,
    },
}

/// Every pre-tokenizer.
pub(super) static TABLE: [Row; 5] = [
    // `[\p{P}$+<=>^~|]+`, then the GPT-2 expression, then `\p{N}+`, then `[0-9][0-9][0-9]`.
    Row {
        names: &["default"],
        stages: &[
            Stage::Runs(is_default_sign),
            Stage::Words(Words::Gpt2),
            Stage::Runs(char::is_numeric),
            Stage::Threes,
        ],
        composed: false,
        whole_pieces: false,
        bos: false,
    },
    Row {
        names: &["gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "mellum", "gigachat"],
        stages: &[Stage::Words(Words::Gpt2)],
        composed: false,
        whole_pieces: false,
        bos: false,
    },
    // `\p{N}`, then the GPT-2 expression.
    Row {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        stages: &[Stage::Each(char::is_numeric), Stage::Words(Words::Gpt2)],
        composed: false,
        whole_pieces: false,
        bos: false,
    },
    Row {
        names: &["llama-bpe", "llama3", "llama-v3"],
        stages: &[Stage::Words(Words::Llama3 { digits: 3 })],
        composed: false,
        whole_pieces: true,
        bos: true,
    },
    Row {
        names: &["qwen2", "deepseek-r1-qwen"],
        stages: &[Stage::Words(Words::Llama3 { digits: 1 })],
        composed: true,
        whole_pieces: false,
        bos: false,
    },
];

impl Row {
    /// The row with this name.
    pub(super) fn find(name: &str) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.names.contains(&name))
    }

    /// Gives the pieces of a text in order; together they are the text.
    pub(super) fn pieces<'t>(&self, text: &'t str, emit: &mut dyn FnMut(&'t str)) {
        cut(self.stages, text, emit);
    }
}

fn cut<'t>(stages: &[Stage], text: &'t str, emit: &mut dyn FnMut(&'t str)) {
    let Some((stage, inner)) = stages.split_first() else { return emit(text) };
    let mut rest = text;
    while !rest.is_empty() {
        // A length of 0 or inside a character cannot be; the rest is then one piece.
        let (piece, after) = rest.split_at_checked(stage.first(rest)).unwrap_or((rest, ""));
        let (piece, after) = if piece.is_empty() { (rest, "") } else { (piece, after) };
        cut(inner, piece, emit);
        rest = after;
    }
}

impl Stage {
    /// The bytes of the first piece of a text that is not empty.
    fn first(&self, text: &str) -> usize {
        match self {
            Stage::Words(words) => words.first(text),
            Stage::Each(class) => match text.chars().next() {
                Some(c) if class(c) => c.len_utf8(),
                _ => run(text, |c| !class(c)),
            },
            Stage::Runs(class) => {
                let inside = text.starts_with(class);
                run(text, |c| class(c) == inside)
            }
            Stage::Threes => {
                let threes = |at: usize| {
                    text.as_bytes().get(at..at + 3).is_some_and(|b| b.iter().all(u8::is_ascii_digit))
                };
                match (0..text.len()).find(|&at| threes(at)) {
                    Some(0) => 3,
                    Some(at) => at,
                    None => text.len(),
                }
            }
        }
    }
}

impl Words {
    /// The bytes of the first piece of a text that is not empty.
    fn first(&self, text: &str) -> usize {
        let mut chars = text.chars();
        let Some(first) = chars.next() else { return 0 };
        let second = chars.next();
        let class = Class::of(first);
        let next = second.map(Class::of);
        if first == '\'' {
            let length = contraction(chars.as_str(), second, matches!(self, Words::Llama3 { .. }));
            if length > 0 {
                return length;
            }
        }
        let same = |class: Class| move |c: char| Class::of(c) == class;
        let behind =
            |length: usize, class: Class| length + run(text.get(length..).unwrap_or(""), same(class));
        match self {
            Words::Gpt2 => match (first, class, next) {
                (' ', _, Some(next)) if next != Class::Space => behind(1, next),
                (_, Class::Space, _) => space(text, false),
                (_, class, _) => behind(0, class),
            },
            Words::Llama3 { digits } => match (first, class, next) {
                (_, Class::Letter, _) => behind(0, Class::Letter),
                (_, Class::Number, _) => text
                    .chars()
                    .take(*digits)
                    .take_while(|&c| Class::of(c) == Class::Number)
                    .map(char::len_utf8)
                    .sum(),
                (first, _, Some(Class::Letter)) if !matches!(first, '\r' | '\n') => {
                    behind(first.len_utf8(), Class::Letter)
                }
                (' ', _, Some(Class::Sign)) | (_, Class::Sign, _) => {
                    let signs = behind(usize::from(first == ' '), Class::Sign);
                    signs + run(text.get(signs..).unwrap_or(""), |c| matches!(c, '\r' | '\n'))
                }
                _ => space(text, true),
            },
        }
    }
}

/// The bytes of an English contraction: an apostrophe, `second`, and perhaps the first character of `rest`. 0 if it is
/// none. Without regard to case if `fold`; U+017F is then a form of `s`.
fn contraction(rest: &str, second: Option<char>, fold: bool) -> usize {
    let lower = |c: char| match c {
        'ſ' if fold => 's',
        _ if fold => c.to_ascii_lowercase(),
        _ => c,
    };
    let Some(second) = second else { return 0 };
    match (lower(second), rest.chars().next().map(lower)) {
        ('s' | 't' | 'm' | 'd', _) => 1 + second.len_utf8(),
        ('r' | 'v', Some('e')) | ('l', Some('l')) => 3,
        _ => 0,
    }
}

/// The bytes of a piece that begins with white space: up to the last line break of the run if `lines` and there is one;
/// else the run, of which the last character is left to the word that follows, unless it is the only one.
fn space(text: &str, lines: bool) -> usize {
    let length = run(text, char::is_whitespace);
    let spaces = text.get(..length).unwrap_or("");
    if lines && let Some(last) = spaces.rfind(['\r', '\n']) {
        return last + 1;
    }
    match spaces.char_indices().next_back() {
        Some((last, _)) if last > 0 && length < text.len() => last,
        _ => length,
    }
}

/// The bytes of the longest run of characters of a class at the start of a text.
fn run(text: &str, class: impl Fn(char) -> bool) -> usize {
    text.find(|c| !class(c)).unwrap_or(text.len())
}

/// The classes of characters that the expressions tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\s`
    Space,
    /// The rest.
    Sign,
}

impl Class {
    fn of(c: char) -> Class {
        match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            ' ' | '\t'..='\r' => Class::Space,
            '\0'..='\x7f' => Class::Sign,
            _ => match get_general_category(c) {
                G::UppercaseLetter
                | G::LowercaseLetter
                | G::TitlecaseLetter
                | G::ModifierLetter
                | G::OtherLetter => Class::Letter,
                G::DecimalNumber | G::LetterNumber | G::OtherNumber => Class::Number,
                _ if c.is_whitespace() => Class::Space,
                _ => Class::Sign,
            },
        }
    }
}

/// `[\p{P}$+<=>^~|]`
fn is_default_sign(c: char) -> bool {
    matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '~' | '|')
        || matches!(
            get_general_category(c),
            G::ConnectorPunctuation
                | G::DashPunctuation
                | G::OpenPunctuation
                | G::ClosePunctuation
                | G::InitialPunctuation
                | G::FinalPunctuation
                | G::OtherPunctuation
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let mut found = Vec::new();
        Row::find(name).expect("a row").pieces(text, &mut |piece| found.push(piece));
        assert_eq!(found.concat(), text);
        found
    }

    #[test]
    fn gpt2() {
        assert_eq!(
            pieces("gpt-2", "I'll go, it's 1234!!"),
            ["I", "'ll", " go", ",", " it", "'s", " 1234", "!!"]
        );
        assert_eq!(pieces("gpt-2", "a  b \n\n c  "), ["a", " ", " b", " \n\n", " c", "  "]);
        assert_eq!(pieces("gpt-2", "\t\tx 's 'S"), ["\t", "\t", "x", " '", "s", " '", "S"]);
        assert_eq!(pieces("gpt-2", "ſ'ſ"), ["ſ", "'", "ſ"]);
        assert_eq!(pieces("gpt-2", ""), [""; 0]);
    }

    #[test]
    fn llama3_and_qwen2() {
        assert_eq!(pieces("llama-bpe", "I'LL 12345 x_y"), ["I", "'LL", " ", "123", "45", " x", "_y"]);
        assert_eq!(pieces("qwen2", "n 12"), ["n", " ", "1", "2"]);
        assert_eq!(pieces("qwen2", "a;\n\n  \n b"), ["a", ";\n\n", "  \n", " b"]);
        assert_eq!(pieces("qwen2", "\n   b\u{a0}\u{a0}c'ſ"), ["\n", "  ", " b", "\u{a0}", "\u{a0}c", "'ſ"]);
        assert_eq!(pieces("llama-bpe", " !\r\nx\rq"), [" !\r\n", "x", "\r", "q"]);
        assert_eq!(pieces("llama-bpe", "'re're've'v"), ["'re", "'re", "'ve", "'v"]);
    }

    #[test]
    fn digits_alone() {
        assert_eq!(pieces("smollm", "in 2024 ½²"), ["in", " ", "2", "0", "2", "4", " ", "½", "²"]);
        assert_eq!(pieces("smollm", "a  1"), ["a", "  ", "1"]);
    }

    #[test]
    fn default_rules() {
        assert_eq!(pieces("default", "x<=y 12345…"), ["x", "<=", "y", " ", "123", "45", "…"]);
        assert_eq!(pieces("default", "٣1234"), ["٣", "123", "4"]);
    }
}
