//! The laws of axes: which labels stand for which extents, and when a type is legal.

use super::{At, Problem, Reason, Scope, Typed};
use crate::dim::{Atom, Dim, Facts, Proof, Symbol};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Axis, Operand, TensorType};
use crate::tensor::names::{did_you_mean, is_name};
use crate::tensor::storage::{Storage, relabel};

/// The type of an operand, its axes renamed to its labels. A literal or a size is a scalar of a type of its class:
/// `bool`, `f64`, `i64`.
pub fn operand_type(scope: &Scope<'_>, operand: &Operand) -> Result<TensorType, Problem> {
    match operand {
        Operand::Value { value, labels } => {
            let ty = &scope.value(*value)?.ty;
            relabel(ty, labels, scope.facts).map_err(|message| Problem::new(Reason::Label, message))
        }
        Operand::Literal(Scalar::Bool(_)) => Ok(TensorType { dtype: DType::Bool, axes: Vec::new() }),
        Operand::Literal(Scalar::Float(_)) => Ok(TensorType { dtype: DType::F64, axes: Vec::new() }),
        Operand::Literal(Scalar::Int(_)) | Operand::Dim(_) => {
            Ok(TensorType { dtype: DType::I64, axes: Vec::new() })
        }
    }
}

/// Whether labels fit a value of type `ty`: as many as axes, names, all different.
pub fn check_labels(scope: &Scope<'_>, ty: &TensorType, labels: &[Symbol]) -> Result<(), Problem> {
    if labels.len() != ty.axes.len() {
        let plural = if labels.len() == 1 { "" } else { "s" };
        let message = format!(
            "{} label{plural} for a tensor with axes {}; write one label for each axis",
            labels.len(),
            axes_text(&ty.axes)
        );
        return Err(Problem::new(Reason::Label, message));
    }
    for (k, label) in labels.iter().enumerate() {
        if labels.iter().take(k).any(|earlier| earlier == label) {
            let message = format!(
                "the label `{label}` stands for two axes of one tensor; a diagonal is not read this way"
            );
            return Err(Problem::new(Reason::Label, message));
        }
        check_name(label, "a label")?;
    }
    let ty = relabel(ty, labels, scope.facts).map_err(|message| Problem::new(Reason::Label, message))?;
    // Renamed extents must stay readable: a label may not capture a size.
    for (k, axis) in ty.axes.iter().enumerate() {
        for symbol in axis.extent.symbols() {
            let captured = labels.iter().take(k).any(|label| *label == symbol);
            if captured && scope.facts.range(&symbol).is_some() {
                return Err(ambiguous(&symbol, &axis.name));
            }
        }
    }
    Ok(())
}

/// Whether a word can be a name.
pub fn check_name(name: &Symbol, what: &str) -> Result<(), Problem> {
    if is_name(name.as_str()) {
        return Ok(());
    }
    let message = format!(
        "`{name}` cannot be the name of {what}: a name has letters, digits and `_`, and is no keyword"
    );
    Err(Problem::new(Reason::Name, message))
}

/// The axes as the text writes them.
pub fn axes_text(axes: &[Axis]) -> String {
    let axes: Vec<String> = axes.iter().map(axis_text).collect();
    format!("[{}]", axes.join(", "))
}

/// An axis as the text writes it.
pub fn axis_text(axis: &Axis) -> String {
    match axis.extent.as_symbol() {
        Some(symbol) if *symbol == axis.name => axis.name.to_string(),
        _ => format!("{}: {}", axis.name, axis.extent),
    }
}

/// Whether every symbol of a dim is a size or one of `local`, and every table an integer tensor of the right rank.
pub fn check_dim(scope: &Scope<'_>, dim: &Dim, local: &[Symbol]) -> Result<(), Problem> {
    check_dim_with(scope, dim, local, &[])
}

/// As [`check_dim`], for labels: a label may not have the name of a size that the dim mentions.
pub fn check_index(scope: &Scope<'_>, dim: &Dim, labels: &[Symbol]) -> Result<(), Problem> {
    for symbol in dim.symbols() {
        if labels.contains(&symbol) && scope.facts.range(&symbol).is_some() {
            let message = format!(
                "`{symbol}` is both a label and a size here; read the operands under another label, such as `[{}_]`",
                symbol.as_str().to_ascii_lowercase()
            );
            return Err(Problem::new(Reason::Label, message));
        }
    }
    check_dim(scope, dim, labels)
}

fn check_dim_with(
    scope: &Scope<'_>,
    dim: &Dim,
    local: &[Symbol],
    tables: &[(Symbol, &TensorType)],
) -> Result<(), Problem> {
    if dim.is_overflow() {
        let message = "this has a constant that does not fit 64 bits; use smaller constants";
        return Err(Problem::new(Reason::Extent, message));
    }
    for symbol in dim.symbols() {
        if scope.facts.range(&symbol).is_none() && !local.contains(&symbol) {
            let known = scope.facts.symbols().map(Symbol::as_str).chain(local.iter().map(Symbol::as_str));
            let hint = did_you_mean(symbol.as_str(), known);
            let hint = if !hint.is_empty() {
                hint
            } else if scope.find(&symbol).is_some() {
                format!("; `{symbol}` is a tensor, whose elements are written `{symbol}[...]`")
            } else {
                format!("; a size is declared behind `where`, such as `{symbol} in 0..=8192`")
            };
            let what = if local.is_empty() { "size" } else { "size or label" };
            return Err(Problem::new(Reason::Symbol, format!("unknown {what} `{symbol}`{hint}")));
        }
    }
    let mut problem = None;
    visit_elements(dim, &mut |table, rank| {
        if problem.is_none() {
            problem = check_table(scope, table, rank, tables).err();
        }
    });
    problem.map_or(Ok(()), Err)
}

fn check_table(
    scope: &Scope<'_>,
    table: &Symbol,
    rank: usize,
    more: &[(Symbol, &TensorType)],
) -> Result<(), Problem> {
    let other = more.iter().find(|(name, _)| name == table).map(|(_, ty)| *ty);
    let Some(ty) = scope.find(table).map(|value| &value.ty).or(other) else {
        let hint = did_you_mean(table.as_str(), scope.names.keys().map(Symbol::as_str));
        let hint = if hint.is_empty() { "; it must be defined before this".to_string() } else { hint };
        return Err(Problem::new(Reason::Table, format!("unknown integer tensor `{table}`{hint}")));
    };
    if !ty.dtype.is_int() {
        let message = format!("`{table}` has elements of type {}; an index is made of integers", ty.dtype);
        return Err(Problem::new(Reason::Table, message));
    }
    if ty.axes.len() != rank {
        let message = format!("`{table}` has axes {}, and is read at {rank} indices", axes_text(&ty.axes));
        return Err(Problem::new(Reason::Table, message));
    }
    Ok(())
}

fn visit_elements(dim: &Dim, f: &mut dyn FnMut(&Symbol, usize)) {
    for (_, factors) in dim.terms() {
        for atom in factors {
            if let Atom::Element(table, index) = atom {
                f(table, index.len());
            }
            atom.operands().into_iter().for_each(|inner| visit_elements(inner, f));
        }
    }
}

fn ambiguous(symbol: &Symbol, axis: &Symbol) -> Problem {
    let message = format!(
        "`{symbol}` in the extent of `{axis}` could be the size or the axis before it; name that axis differently, \
         such as `{}_`",
        symbol.as_str().to_ascii_lowercase()
    );
    Problem::new(Reason::Label, message)
}

/// Whether a type is legal where `scope` is seen: legal axes, and a place in memory for each element. Extents may also
/// mention `tables`.
pub fn check_type(
    scope: &Scope<'_>,
    ty: &TensorType,
    tables: &[(Symbol, &TensorType)],
) -> Result<(), Problem> {
    check_axes_with(scope, &ty.axes, tables)?;
    Storage::with(ty, scope.facts).map(drop).map_err(|message| Problem::new(Reason::Extent, message))
}

/// Whether axes are legal: names that differ, extents over sizes, names of earlier axes and tables.
fn check_axes_with(
    scope: &Scope<'_>,
    axes: &[Axis],
    tables: &[(Symbol, &TensorType)],
) -> Result<(), Problem> {
    let mut earlier: Vec<Symbol> = Vec::with_capacity(axes.len());
    for axis in axes {
        check_name(&axis.name, "an axis")?;
        if earlier.contains(&axis.name) {
            let message = format!(
                "two axes are called `{}`; name one differently, such as `{}2: ...`",
                axis.name, axis.name
            );
            return Err(Problem::new(Reason::Label, message));
        }
        check_dim_with(scope, &axis.extent, &earlier, tables)?;
        if let Some(symbol) = axis
            .extent
            .symbols()
            .into_iter()
            .find(|symbol| earlier.contains(symbol) && scope.facts.range(symbol).is_some())
        {
            return Err(ambiguous(&symbol, &axis.name));
        }
        let interval = scope.facts.interval(&axis.extent);
        if interval.hi.is_some_and(|hi| hi < 0) {
            let message = format!("the extent of `{}` is `{}`, which is negative", axis.name, axis.extent);
            return Err(Problem::new(Reason::Extent, message));
        }
        earlier.push(axis.name.clone());
    }
    Ok(())
}

/// Whether two lists of axes have the same extents, whatever their names, so that arrays of one type are arrays of the
/// other: extents that depend on an index are written alike, all others are provably equal. The message says what
/// `has` is and needs to be.
pub fn same_extents(facts: &Facts, wants: &[Axis], has: &[Axis]) -> Result<(), String> {
    if wants.len() != has.len() {
        return Err(format!("has axes {}, and needs {}", axes_text(has), axes_text(wants)));
    }
    let names: Vec<Symbol> = has.iter().map(|axis| axis.name.clone()).collect();
    let wanted = TensorType { dtype: DType::Bool, axes: wants.to_vec() };
    for (want, have) in relabel(&wanted, &names, facts)?.axes.iter().zip(has) {
        let depends = |dim: &Dim| dim.symbols().iter().any(|symbol| facts.range(symbol).is_none());
        let proved = || facts.equal(&want.extent, &have.extent) == Proof::Yes;
        let is_free = !depends(&want.extent) && !depends(&have.extent);
        if want.extent != have.extent && !(is_free && proved()) {
            return Err(format!(
                "has axes {}, and needs {}: `{}` and `{}` are not known to be equal",
                axes_text(has),
                axes_text(wants),
                have.extent,
                want.extent
            ));
        }
    }
    Ok(())
}

/// The labels of an operator's operands in order of first appearance, each with its extent over labels.
pub struct LabelTable {
    axes: Vec<Axis>,
}

impl LabelTable {
    /// The labels of the operands. Fails where one label has two extents that are not known to be equal.
    pub fn of(scope: &Scope<'_>, operands: &[Operand]) -> Result<LabelTable, Problem> {
        let mut table = LabelTable { axes: Vec::new() };
        let mut owners: Vec<&Symbol> = Vec::new();
        for (index, operand) in operands.iter().enumerate() {
            let Operand::Value { value, .. } = operand else { continue };
            let value = scope.value(*value)?;
            for axis in operand_type(scope, operand)?.axes {
                let Some(known) = table.axes.iter().position(|known| known.name == axis.name) else {
                    table.axes.push(axis);
                    owners.push(&value.name);
                    continue;
                };
                let (first, owner) = (&table.axes[known].extent, owners[known]);
                if scope.facts.equal(first, &axis.extent) != Proof::Yes {
                    let message = format!(
                        "`{}` has extent `{first}` in `{owner}` and `{}` in `{}`, which are not known to be equal; \
                         use different labels or one size",
                        axis.name, axis.extent, value.name
                    );
                    return Err(Problem::new(Reason::Extent, message).at(At::Operand(index)));
                }
            }
        }
        Ok(table)
    }

    /// How many labels there are.
    pub fn count(&self) -> usize {
        self.axes.len()
    }

    /// The labels.
    pub fn names(&self) -> impl Iterator<Item = &Symbol> {
        self.axes.iter().map(|axis| &axis.name)
    }

    /// Where a label stands.
    pub fn index(&self, label: &Symbol) -> Result<usize, Problem> {
        self.names().position(|known| known == label).ok_or_else(|| {
            let names: Vec<&str> = self.names().map(Symbol::as_str).collect();
            let hint = did_you_mean(label.as_str(), names.iter().copied());
            let message =
                format!("no operand has a label `{label}`; the labels are [{}]{hint}", names.join(", "));
            Problem::new(Reason::Label, message)
        })
    }

    /// Whether a mask under labels has extents equal to those of the operator's labels.
    pub fn agrees(
        &self,
        scope: &Scope<'_>,
        mask: &Symbol,
        ty: &TensorType,
        labels: &[Symbol],
    ) -> Result<(), Problem> {
        let ty = relabel(ty, labels, scope.facts).map_err(|message| Problem::new(Reason::Mask, message))?;
        for axis in ty.axes {
            let known = &self.axes[self.index(&axis.name)?];
            if scope.facts.equal(&known.extent, &axis.extent) != Proof::Yes {
                let message = format!(
                    "`{}` has extent `{}` in the mask `{mask}` and `{}` in the operands, which are not known to be equal",
                    axis.name, axis.extent, known.extent
                );
                return Err(Problem::new(Reason::Mask, message));
            }
        }
        Ok(())
    }

    /// The labels and names of the result's axes: those stated, else `default` under their own names.
    pub fn result(&self, stated: Option<&[Vec<Axis>]>, default: Option<&[Symbol]>) -> Result<Shape, Problem> {
        let problem = |message: String| Err(Problem::new(Reason::Label, message).at(At::Stated));
        let axes = match (stated, default) {
            (Some([axes]), _) => axes,
            (Some(lists), _) => return problem(format!("{} lists of axes for one result", lists.len())),
            (None, default) => {
                let labels = default.unwrap_or_default().to_vec();
                return Ok(Shape { names: labels.clone(), labels });
            }
        };
        let mut shape = Shape { labels: Vec::new(), names: Vec::new() };
        for axis in axes {
            let Some(label) = axis.extent.as_symbol() else {
                return problem(format!(
                    "`{}` is not a label; an axis of the result is written `label` or `name: label`",
                    axis.extent
                ));
            };
            self.index(label).map_err(|problem| problem.at(At::Stated))?;
            if shape.labels.contains(label) {
                return problem(format!("the label `{label}` stands for two axes of the result"));
            }
            shape.labels.push(label.clone());
            shape.names.push(axis.name.clone());
        }
        Ok(shape)
    }
}

/// The axes of a result: which label each carries and what it is called.
pub struct Shape {
    /// The labels.
    pub labels: Vec<Symbol>,
    /// The names.
    pub names: Vec<Symbol>,
}

impl Shape {
    /// The typed result. Fails where an extent depends on something that does not come before it.
    pub fn finish(self, scope: &Scope<'_>, table: &LabelTable, dtype: DType) -> Result<Typed, Problem> {
        let reduced = table.names().filter(|label| !self.labels.contains(label)).cloned();
        let order: Vec<Symbol> = self.labels.iter().cloned().chain(reduced).collect();
        for (k, label) in order.iter().enumerate() {
            let extent = &table.axes[table.index(label)?].extent;
            for symbol in extent.symbols() {
                let earlier = order.iter().take(k).any(|earlier| *earlier == symbol);
                let is_size = scope.facts.range(&symbol).is_some();
                if is_size && earlier {
                    return Err(ambiguous(&symbol, label));
                }
                if !is_size && !earlier {
                    let message = format!(
                        "the extent of `{label}` depends on `{symbol}`, which must come before it: keep `{symbol}` in \
                         the result, ahead of `{label}`, or reduce `{label}` first"
                    );
                    return Err(Problem::new(Reason::Extent, message));
                }
            }
        }
        let mut axes = Vec::with_capacity(self.labels.len());
        for (label, name) in self.labels.iter().zip(&self.names) {
            let rename = |symbol: &Symbol| {
                let at = self.labels.iter().position(|label| label == symbol)?;
                let is_size = scope.facts.range(symbol).is_some();
                self.names.get(at).filter(|_| !is_size).map(Dim::from)
            };
            let extent = table.axes[table.index(label)?].extent.substitute(&rename);
            axes.push(Axis { name: name.clone(), extent });
        }
        let ty = TensorType { dtype, axes };
        check_type(scope, &ty, &[]).map_err(|problem| problem.at(At::Stated))?;
        Ok(Typed { result_labels: self.labels, types: vec![ty] })
    }
}
