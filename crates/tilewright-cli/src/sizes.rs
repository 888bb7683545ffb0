//! Sizes: those that a user gives, those that follow from tensors, defaults for the rest, and sweeps.

use std::collections::BTreeMap;
use tilewright::dim::{Dim, Facts, Symbol};
use tilewright::error::Error;
use tilewright::host::HostTensor;
use tilewright::tensor::Program;
use tilewright::tensor::names::did_you_mean;
use tilewright::tensor::storage::Storage;

/// The size of a symbol for which nothing is said, if its facts allow it; else the nearest that they allow.
pub const DEFAULT: i64 = 16;

/// Where a size comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program allows one value only.
    Fixed,
    /// The user said so.
    Given,
    /// The shape of this tensor.
    Tensor(Symbol),
    /// [`DEFAULT`].
    Default,
}

/// A size and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The value.
    pub value: i64,
    /// Where it comes from.
    pub origin: Origin,
}

/// The sizes of a program: from tensors (extents, and the last of offsets), from `given`, fixed, or by default. They
/// are within their facts.
///
/// # Errors
/// [`Error::Input`] for a symbol that the program does not have, a value outside its facts, a tensor with another
/// number of axes than its parameter, and where two sources disagree.
pub fn bind<'a>(
    program: &Program,
    given: &BTreeMap<Symbol, i64>,
    tensors: impl IntoIterator<Item = (&'a Symbol, &'a HostTensor)>,
) -> Result<BTreeMap<Symbol, Size>, Error> {
    let facts = &program.facts;
    let mut sizes: BTreeMap<Symbol, Size> = BTreeMap::new();
    for (symbol, &value) in given {
        check(facts, symbol, value)?;
        sizes.insert(symbol.clone(), Size { value, origin: Origin::Given });
    }
    let main = program.main();
    for (name, tensor) in tensors {
        let Some(id) = main.find(name) else { continue };
        let storage = Storage::of(main, &main.value(id).ty, facts).map_err(|message| input(name, message))?;
        if storage.extents.len() != tensor.extents().len() {
            let message = format!(
                "the program needs {} axes, and a tensor of shape {:?} was given",
                storage.extents.len(),
                tensor.extents()
            );
            return Err(input(name, message));
        }
        let shape = || format!("the shape is {:?}", tensor.extents());
        let mut equations: Vec<(&Dim, i64, String)> = Vec::new();
        for (extent, &actual) in storage.extents.iter().zip(tensor.extents()) {
            equations.push((extent, i64::try_from(actual).unwrap_or(i64::MAX), shape()));
        }
        let last = tensor.extents().first().and_then(|count| i64::try_from(count.checked_sub(1)?).ok());
        if let (Some((_, total)), Some(last)) = (facts.splits(name), last)
            && let Some(offset) = tensor.integer(&[last])
        {
            equations.push((total, offset, format!("the last offset is {offset}")));
        }
        for (dim, actual, says) in equations {
            let Some((symbol, value)) = dim.solve(actual) else { continue };
            check(facts, &symbol, value).map_err(|error| {
                let reason = match error {
                    Error::Input { message, .. } => message,
                    other => other.to_string(),
                };
                input(name, format!("{says}, but {symbol} = {reason}"))
            })?;
            let own = Size { value, origin: Origin::Tensor(name.clone()) };
            match sizes.insert(symbol.clone(), own) {
                Some(other) if other.value != value => {
                    let message = format!("{symbol} is {value} here, and {}", other.describe());
                    return Err(input(name, message));
                }
                _ => {}
            }
        }
    }
    for symbol in facts.symbols() {
        let (lo, hi) = facts.range(symbol).unwrap_or((0, None));
        let origin = if hi == Some(lo) { Origin::Fixed } else { Origin::Default };
        let value = default(facts, symbol);
        sizes.entry(symbol.clone()).or_insert(Size { value, origin });
    }
    Ok(sizes)
}

impl Size {
    /// `16 from x`, `16 by default`, …
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::Fixed => format!("{} by the program", self.value),
            Origin::Given => format!("{} as given", self.value),
            Origin::Tensor(name) => format!("{} from `{name}`", self.value),
            Origin::Default => format!("{} by default", self.value),
        }
    }
}

/// The values alone.
pub fn values(sizes: &BTreeMap<Symbol, Size>) -> BTreeMap<Symbol, i64> {
    sizes.iter().map(|(symbol, size)| (symbol.clone(), size.value)).collect()
}

/// The value nearest to [`DEFAULT`] that the facts allow.
pub fn default(facts: &Facts, symbol: &Symbol) -> i64 {
    let (lo, hi) = facts.range(symbol).unwrap_or((0, None));
    let by = facts.divisor(symbol).unwrap_or(1).max(1);
    let floor = |x: i64| x.div_euclid(by) * by;
    let ceil = |x: i64| floor(x.saturating_add(by - 1));
    let value = ceil(DEFAULT.max(lo));
    match hi {
        Some(hi) if value > hi => floor(hi),
        _ => value,
    }
}

/// Whether a size exists and may have this value.
///
/// # Errors
/// [`Error::Input`] if not.
pub fn check(facts: &Facts, symbol: &Symbol, value: i64) -> Result<(), Error> {
    if facts.range(symbol).is_none() {
        let names: Vec<&str> = facts.symbols().map(Symbol::as_str).collect();
        let hint = did_you_mean(symbol.as_str(), names.iter().copied());
        let message = if names.is_empty() {
            "the program has no sizes".to_string()
        } else if hint.is_empty() {
            format!("the program has no such size; there are {}", names.join(", "))
        } else {
            format!("the program has no such size{hint}")
        };
        return Err(input(symbol, message));
    }
    let one = BTreeMap::from([(symbol.clone(), value)]);
    facts.verify_env(&one).map_err(|error| {
        let message = error.to_string();
        let message = message.strip_prefix(&format!("{symbol} = ")).unwrap_or(&message);
        input(symbol, message)
    })
}

fn input(name: &Symbol, message: impl Into<String>) -> Error {
    Error::Input { subject: name.to_string(), message: message.into() }
}

/// Reads `S=128`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_size(text: &str) -> Result<(Symbol, i64), String> {
    let (name, values) = parse_values(text)?;
    match values.as_slice() {
        [value] => Ok((name, *value)),
        _ => Err(format!("one value expected in `{text}`, such as `S=128`")),
    }
}

/// Reads `S=0,1,7;N=64`: every combination of the values, the first name varying slowest.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_sweep(text: &str) -> Result<Sweep, String> {
    let mut axes: Vec<(Symbol, Vec<i64>)> = Vec::new();
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let (name, values) = parse_values(part)?;
        if axes.iter().any(|(other, _)| *other == name) {
            return Err(format!("`{name}` stands twice in `{text}`"));
        }
        axes.push((name, values));
    }
    Ok(Sweep { axes })
}

fn parse_values(text: &str) -> Result<(Symbol, Vec<i64>), String> {
    let wrong = || format!("`{text}` is not a size and its value, such as `S=128`");
    let (name, values) = text.split_once('=').ok_or_else(wrong)?;
    let name = name.trim();
    if name.is_empty() {
        return Err(wrong());
    }
    let parse = |value: &str| {
        value.trim().parse().map_err(|_| format!("`{}` in `{}` is not an integer", value.trim(), text.trim()))
    };
    let values = values.split(',').map(parse).collect::<Result<Vec<i64>, String>>()?;
    Ok((Symbol::new(name), values))
}

/// Values of sizes, to be combined in every way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweep {
    /// Each size and its values.
    pub axes: Vec<(Symbol, Vec<i64>)>,
}

impl Sweep {
    /// The most combinations that are run.
    pub const MAX: usize = 100_000;

    /// Every combination; none where there are more than [`Sweep::MAX`].
    pub fn combinations(&self) -> Option<Vec<BTreeMap<Symbol, i64>>> {
        let count = self.axes.iter().try_fold(1usize, |n, (_, values)| n.checked_mul(values.len()));
        if count.is_none_or(|count| count > Sweep::MAX) {
            return None;
        }
        let mut all = vec![BTreeMap::new()];
        for (name, values) in &self.axes {
            all = all
                .into_iter()
                .flat_map(|sizes| {
                    values.iter().map(move |&value| {
                        let mut sizes: BTreeMap<Symbol, i64> = sizes.clone();
                        sizes.insert(name.clone(), value);
                        sizes
                    })
                })
                .collect();
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps() {
        let sweep = parse_sweep("S=0,1; N = 64 ").expect("well formed");
        let all = sweep.combinations().expect("few");
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], BTreeMap::from([(Symbol::new("S"), 1), (Symbol::new("N"), 64)]));
        assert_eq!(parse_sweep("").expect("empty").combinations().expect("one").len(), 1);
        assert_eq!(parse_sweep("S=1;S=2").expect_err("twice"), "`S` stands twice in `S=1;S=2`");
        assert_eq!(parse_sweep("S=x").expect_err("no number"), "`x` in `S=x` is not an integer");
        assert_eq!(
            parse_size("S").expect_err("no value"),
            "`S` is not a size and its value, such as `S=128`"
        );
        assert_eq!(parse_size("S=1,2").expect_err("two"), "one value expected in `S=1,2`, such as `S=128`");
    }

    #[test]
    fn defaults_are_within_the_facts() {
        let facts: Facts =
            "A in 0..=8192, B in 3..=5, C in 100.., D = 7, E in 0..=90 by 40, F in 0..=12 by 5"
                .parse()
                .expect("facts");
        let defaults: Vec<i64> = facts.symbols().map(|symbol| default(&facts, symbol)).collect();
        assert_eq!(defaults, [16, 5, 100, 7, 40, 10]);
    }
}
