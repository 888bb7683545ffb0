//! What may be a name, and which known name a wrong one was meant to be.

/// Words of the text form that no value, size, axis, label or function can be called. The keywords of an operator of
/// `tensor/ops` name no operand of that operator, but are free otherwise.
const RESERVED: [&str; 12] =
    ["and", "or", "not", "true", "false", "inf", "nan", "return", "where", "over", "to", "accumulate"];

/// Whether the word stands for something else in the text form.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether the text form reads `word` as one word: a letter or `_`, then letters, digits and `_`.
pub fn is_word(word: &str) -> bool {
    let mut bytes = word.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether `word` can name something: a word, not `_` alone and not reserved.
pub fn is_name(word: &str) -> bool {
    is_word(word) && word != "_" && !is_reserved(word)
}

/// The candidate that `word` most likely stands for: at the least edit distance, which is at most a third of the
/// word's length (at least 1), then with the longest common beginning, then the first.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    let mut best: Option<((usize, usize), &str)> = None;
    for candidate in candidates {
        let distance = edit_distance(word, candidate);
        let differs_at = word.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
        let rank = (distance, word.len().saturating_sub(differs_at));
        if distance <= allowed && distance < candidate.chars().count() && best.is_none_or(|(r, _)| rank < r) {
            best = Some((rank, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `; did you mean …?` where a candidate is close, else nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [("", "", 0), ("abc", "acb", 1), ("rsqrt", "sqrt", 1), ("kitten", "sitting", 3)] {
            assert_eq!(edit_distance(a, b), d, "{a} {b}");
        }
        assert_eq!(closest("mull", ["add", "mul"]), Some("mul"));
        assert_eq!(closest("mull", ["full", "mul"]), Some("mul"));
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest("transpoes", ["transpose"]), Some("transpose"));
    }

    #[test]
    fn names() {
        assert!(is_name("x_1") && is_name("_x") && is_name("max"));
        assert!(!is_name("_") && !is_name("1x") && !is_name("x.y") && !is_name("over") && !is_name(""));
    }
}
