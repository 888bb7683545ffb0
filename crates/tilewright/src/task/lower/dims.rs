//! Index expressions: rewriting, simplifying under facts, and bounding over variables that are to go.

use crate::dim::{Atom, Dim, Facts, Symbol};
use crate::tensor::storage;

/// A variable and the values it takes: `first ≤ name < end`, over earlier variables.
#[derive(Clone, Debug)]
pub(super) struct Var {
    pub name: Symbol,
    pub first: Dim,
    pub end: Dim,
}

/// The dim with `f(atom)` for each atom, inside out: the atom that `f` sees has rewritten operands.
pub(super) fn rebuild(dim: &Dim, f: &mut dyn FnMut(Atom) -> Dim) -> Dim {
    let mut sum = Dim::constant(dim.constant_part());
    for (coefficient, factors) in dim.terms() {
        let mut product = Dim::constant(coefficient);
        for atom in factors {
            let atom = rebuild_operands(atom, f);
            product = product * f(atom);
        }
        sum = sum + product;
    }
    sum
}

fn rebuild_operands(atom: &Atom, f: &mut dyn FnMut(Atom) -> Dim) -> Atom {
    let mut all = |args: &[Dim]| args.iter().map(|arg| rebuild(arg, f)).collect::<Vec<_>>();
    match atom {
        Atom::Symbol(_) | Atom::Overflow => atom.clone(),
        Atom::Element(table, index) => Atom::Element(table.clone(), all(index)),
        Atom::Min(args) => Atom::Min(all(args)),
        Atom::Max(args) => Atom::Max(all(args)),
        Atom::FloorDiv(a, b) => Atom::FloorDiv(rebuild(a, f), rebuild(b, f)),
        Atom::CeilDiv(a, b) => Atom::CeilDiv(rebuild(a, f), rebuild(b, f)),
        Atom::Mod(a, b) => Atom::Mod(rebuild(a, f), rebuild(b, f)),
    }
}

/// The dim that is this atom.
pub(super) fn of_atom(atom: Atom) -> Dim {
    match atom {
        Atom::Symbol(symbol) => Dim::symbol(symbol),
        Atom::Element(table, index) => Dim::element(table, index),
        Atom::FloorDiv(a, b) => a.floor_div(b),
        Atom::CeilDiv(a, b) => a.ceil_div(b),
        Atom::Mod(a, b) => a.modulo(b),
        Atom::Min(args) => Dim::min_of(args).unwrap_or_else(Dim::overflow),
        Atom::Max(args) => Dim::max_of(args).unwrap_or_else(Dim::overflow),
        Atom::Overflow => Dim::overflow(),
    }
}

/// Calls `f` with each table and index in the dim, those inside indices included.
pub(super) fn visit_elements(dim: &Dim, f: &mut dyn FnMut(&Symbol, &[Dim])) {
    rebuild(dim, &mut |atom| {
        if let Atom::Element(table, index) = &atom {
            f(table, index);
        }
        of_atom(atom)
    });
}

/// The same value in fewer words: operands of `min` and `max` that never decide go, quotients and remainders that the
/// facts settle too; the first and the last offset are 0 and the total.
pub(super) fn simplify(facts: &Facts, dim: &Dim) -> Dim {
    rebuild(dim, &mut |atom| match atom {
        Atom::Min(args) => {
            let args = without_rounded_up(args);
            of_atom(Atom::Min(deciding(args, |a, b| facts.le(a, b).is_yes())))
        }
        Atom::Max(args) => of_atom(Atom::Max(deciding(args, |a, b| facts.le(b, a).is_yes()))),
        Atom::Mod(a, k) if facts.nonneg(&a).is_yes() && facts.lt(&a, &k).is_yes() => a,
        Atom::FloorDiv(a, k) if facts.nonneg(&a).is_yes() && facts.lt(&a, &k).is_yes() => Dim::constant(0),
        Atom::Element(table, index) => match (facts.splits(&table), index.as_slice()) {
            (Some(_), [at]) if facts.resolve(at).is_zero() => Dim::constant(0),
            (Some((parts, total)), [at]) if facts.equal(at, parts).is_yes() => total.clone(),
            _ => Dim::element(table, index),
        },
        atom => of_atom(atom),
    })
}

/// The arguments of a minimum without `k*ceildiv(x, k)`, where the least of the others is not above `x`.
fn without_rounded_up(mut args: Vec<Dim>) -> Vec<Dim> {
    let rounded = |arg: &Dim, args: &[Dim]| {
        let mut terms = arg.terms();
        let (Some((k, [Atom::CeilDiv(x, by)])), None, 0) = (terms.next(), terms.next(), arg.constant_part())
        else {
            return false;
        };
        let there = |x: &Dim| args.contains(x);
        let bounded = match x.as_atom() {
            Some(Atom::Min(parts)) => parts.iter().all(there),
            _ => there(x),
        };
        k > 0 && by.as_constant() == Some(k) && bounded
    };
    if let Some(at) = (0..args.len()).find(|&at| rounded(&args[at], &args)) {
        args.remove(at);
    }
    args
}

/// The arguments without those that another one is `before`.
fn deciding(mut args: Vec<Dim>, before: impl Fn(&Dim, &Dim) -> bool) -> Vec<Dim> {
    let mut k = 0;
    while k < args.len() {
        let beaten = (0..args.len()).any(|other| other != k && before(&args[other], &args[k]));
        if beaten {
            args.remove(k);
        } else {
            k += 1;
        }
    }
    args
}

/// How a dim moves when a variable grows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Still,
    Up,
    Down,
}

impl Direction {
    fn reversed(self) -> Direction {
        match self {
            Direction::Still => Direction::Still,
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    fn join(self, other: Direction) -> Option<Direction> {
        match (self, other) {
            (Direction::Still, d) | (d, Direction::Still) => Some(d),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// Bounds of dims over variables.
pub(super) struct Bounder<'a> {
    /// What is known of everything that stays.
    pub facts: &'a Facts,
    /// The variables to go, outer first.
    pub vars: &'a [Var],
    /// Whether elements of tables must go too.
    pub tables_go: bool,
}

impl Bounder<'_> {
    /// A dim that `dim` is never below (never above, if `upper`) and that mentions no variable.
    pub fn bound(&self, dim: &Dim, upper: bool) -> Option<Dim> {
        let found = self.over(dim, upper, self.vars.len())?;
        (!found.is_overflow()).then_some(found)
    }

    /// The bound over the first `count` variables.
    fn over(&self, dim: &Dim, upper: bool, count: usize) -> Option<Dim> {
        if let Some((table, _)) = storage::as_ragged(dim)
            && self.tables_go
            && let Some((_, total)) = self.facts.splits(table)
        {
            return Some(if upper { total.clone() } else { Dim::constant(0) });
        }
        let inner = (0..count).rev().find(|&k| dim.mentions(&self.vars[k].name));
        if inner.is_none() && self.tables_stay(dim) {
            return Some(dim.clone());
        }
        if let Some(k) = inner {
            let var = &self.vars[k];
            match self.direction(dim, &var.name) {
                Some(direction) => {
                    let last = (direction == Direction::Up) == upper;
                    let end = if last { &var.end - 1 } else { var.first.clone() };
                    let put = dim.substitute(&|symbol| (*symbol == var.name).then(|| end.clone()));
                    // What the ends mention are earlier variables, which go next.
                    return self.over(&put, upper, k);
                }
                None => return self.sum(dim, upper, k + 1),
            }
        }
        self.sum(dim, upper, count)
    }

    /// The sum of the bounds of the terms.
    fn sum(&self, dim: &Dim, upper: bool, count: usize) -> Option<Dim> {
        let mut sum = Dim::constant(dim.constant_part());
        for (coefficient, factors) in dim.terms() {
            let mut still = Dim::constant(coefficient);
            let mut moving = None;
            for atom in factors {
                let as_dim = of_atom(atom.clone());
                if self.stays(&as_dim, count) {
                    still = still * as_dim;
                } else if moving.replace(atom).is_some() {
                    return None;
                }
            }
            let term = match moving {
                None => still,
                Some(atom) if self.facts.nonneg(&still).is_yes() => still * self.atom(atom, upper, count)?,
                Some(atom) if self.facts.nonneg(&-&still).is_yes() => {
                    still * self.atom(atom, !upper, count)?
                }
                Some(_) => return None,
            };
            sum = sum + term;
        }
        Some(sum)
    }

    fn stays(&self, dim: &Dim, count: usize) -> bool {
        let moves = (0..count).any(|k| dim.mentions(&self.vars[k].name));
        !moves && self.tables_stay(dim)
    }

    fn tables_stay(&self, dim: &Dim) -> bool {
        !self.tables_go || dim.tables().is_empty()
    }

    fn atom(&self, atom: &Atom, upper: bool, count: usize) -> Option<Dim> {
        let side = |dim: &Dim| self.over(dim, upper, count);
        let divisor = |k: &Dim| k.as_constant().filter(|&k| k > 0);
        match atom {
            Atom::Symbol(_) => {
                let dim = of_atom(atom.clone());
                let k = (0..count).rev().find(|&k| dim.mentions(&self.vars[k].name))?;
                let var = &self.vars[k];
                self.over(&if upper { &var.end - 1 } else { var.first.clone() }, upper, k)
            }
            Atom::Element(table, _) => match (self.facts.table_range(table), self.facts.splits(table)) {
                (Some((lo, hi)), _) => Some(if upper { hi.clone() } else { lo.clone() }),
                (None, Some((_, total))) => Some(if upper { total.clone() } else { Dim::constant(0) }),
                (None, None) => None,
            },
            Atom::FloorDiv(a, k) => divisor(k).and_then(|k| Some(side(a)?.floor_div(k))),
            Atom::CeilDiv(a, k) => divisor(k).and_then(|k| Some(side(a)?.ceil_div(k))),
            Atom::Mod(_, k) => divisor(k).map(|k| Dim::constant(if upper { k - 1 } else { 0 })),
            Atom::Min(args) if upper => Dim::min_of(args.iter().filter_map(side)),
            Atom::Max(args) if !upper => Dim::max_of(args.iter().filter_map(side)),
            Atom::Min(args) => Dim::min_of(args.iter().map(side).collect::<Option<Vec<_>>>()?),
            Atom::Max(args) => Dim::max_of(args.iter().map(side).collect::<Option<Vec<_>>>()?),
            Atom::Overflow => None,
        }
    }

    fn direction(&self, dim: &Dim, var: &Symbol) -> Option<Direction> {
        let mut all = Direction::Still;
        for (coefficient, factors) in dim.terms() {
            let mut still = Dim::constant(coefficient);
            let mut moving = None;
            for atom in factors {
                let as_dim = of_atom(atom.clone());
                if !as_dim.mentions(var) {
                    still = still * as_dim;
                } else if moving.replace(atom).is_some() {
                    return None;
                }
            }
            let Some(atom) = moving else { continue };
            let direction = self.atom_direction(atom, var)?;
            all = all.join(if self.facts.nonneg(&still).is_yes() {
                direction
            } else if self.facts.nonneg(&-&still).is_yes() {
                direction.reversed()
            } else {
                return None;
            })?;
        }
        Some(all)
    }

    fn atom_direction(&self, atom: &Atom, var: &Symbol) -> Option<Direction> {
        match atom {
            Atom::Symbol(_) => Some(Direction::Up),
            Atom::FloorDiv(a, k) | Atom::CeilDiv(a, k) => {
                let steady = !k.mentions(var) && self.facts.lt(&Dim::constant(0), k).is_yes();
                if steady { self.direction(a, var) } else { None }
            }
            Atom::Min(args) | Atom::Max(args) => {
                args.iter().try_fold(Direction::Still, |all, arg| all.join(self.direction(arg, var)?))
            }
            Atom::Element(table, index) => match (self.facts.splits(table), index.as_slice()) {
                (Some(_), [index]) if !self.tables_go => self.direction(index, var),
                _ => None,
            },
            Atom::Mod(..) | Atom::Overflow => None,
        }
    }
}
