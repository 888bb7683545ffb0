//! What shape rules and meanings have in common.

use super::{Meaning, Problem, Site};
use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Attribute, Axis, Operand, TensorType};
use crate::tensor::meaning::identity;
use crate::tensor::nest::{Expr, Nest, Read};
use crate::tensor::storage::{self, Storage};

impl Site<'_> {
    /// The type of an operand that must be a tensor.
    pub(super) fn tensor(&self, k: usize) -> Result<&TensorType, Problem> {
        match (self.operands.get(k), self.types.get(k)) {
            (Some(Operand::Value { .. }), Some(ty)) => Ok(ty),
            _ => Err(format!("operand {} must be a tensor", k + 1)),
        }
    }

    /// The name of an operand of integers that index expressions read.
    pub(super) fn table(&self, k: usize) -> Result<&Symbol, Problem> {
        let ty = self.tensor(k)?;
        let name = self
            .names
            .get(k)
            .and_then(Option::as_ref)
            .ok_or_else(|| "an index tensor has no name".to_string())?;
        if !ty.dtype.is_int() {
            return Err(format!("`{name}` is {}; indices are integers", ty.dtype));
        }
        if Storage::with(ty, self.facts)?.packed().is_some() {
            return Err(format!(
                "`{name}` is ragged; index with its packed form, and apply `ragged` to the result"
            ));
        }
        Ok(name)
    }

    /// An attribute that is one label of an operand: its position among the operand's axes.
    pub(super) fn axis(&self, attribute: usize, operand: usize) -> Result<usize, Problem> {
        let ty = self.tensor(operand)?;
        match self.attributes.get(attribute) {
            Some(Attribute::Labels(labels)) => match labels.as_slice() {
                [label] => position(ty, label),
                _ => Err("one axis is expected behind `over`".into()),
            },
            _ => Err("an axis is expected behind `over`".into()),
        }
    }

    /// An attribute that is a size or a position.
    pub(super) fn dim(&self, k: usize) -> Result<&Dim, Problem> {
        match self.attributes.get(k) {
            Some(Attribute::Dim(dim)) => Ok(dim),
            _ => Err("a size is expected".into()),
        }
    }

    /// An attribute that is a number.
    pub(super) fn scalar(&self, k: usize) -> Result<Scalar, Problem> {
        match self.attributes.get(k) {
            Some(Attribute::Scalar(value)) => Ok(*value),
            _ => Err("a number is expected".into()),
        }
    }

    /// An attribute that is a list of numbers.
    pub(super) fn scalars(&self, k: usize) -> Result<&[Scalar], Problem> {
        match self.attributes.get(k) {
            Some(Attribute::Scalars(values)) => Ok(values),
            _ => Err("numbers are expected".into()),
        }
    }

    /// An attribute that is an element type, with a value for every number of `values`.
    pub(super) fn dtype(&self, k: usize, values: &[Scalar]) -> Result<DType, Problem> {
        let Some(Attribute::DType(dtype)) = self.attributes.get(k) else {
            return Err("an element type is expected behind `to`".into());
        };
        for value in values {
            let fits = match value {
                Scalar::Bool(_) => *dtype == DType::Bool,
                Scalar::Int(_) => *dtype != DType::Bool,
                Scalar::Float(_) => dtype.is_float(),
            };
            let wraps = dtype.is_int() && dtype.round(*value) != *value;
            if !fits || wraps {
                return Err(format!("{value:?} is no {dtype}"));
            }
        }
        Ok(*dtype)
    }

    /// An attribute that is a word.
    pub(super) fn word(&self, k: usize) -> Result<&Symbol, Problem> {
        match self.attributes.get(k) {
            Some(Attribute::Word(word)) => Ok(word),
            _ => Err("a name is expected".into()),
        }
    }

    /// A dim over the labels of an operand, at an index along its axes.
    pub(super) fn at(&self, dim: &Dim, ty: &TensorType, index: &[Dim]) -> Dim {
        dim.substitute(&|symbol| {
            let k = ty.axes.iter().position(|axis| axis.name == *symbol)?;
            if self.facts.range(symbol).is_some() { None } else { index.get(k).cloned() }
        })
    }

    /// An attribute that is a position along axis `over` of an operand and may depend on the others. A name that is a
    /// size and labels one of the others is refused, since it could be either.
    pub(super) fn position_along(
        &self,
        attribute: usize,
        ty: &TensorType,
        over: usize,
    ) -> Result<&Dim, Problem> {
        let dim = self.dim(attribute)?;
        let known = |s: &Symbol| self.facts.range(s).is_some() || ty.axes.iter().any(|axis| axis.name == *s);
        if let Some(other) = dim.symbols().into_iter().find(|symbol| !known(symbol)) {
            return Err(format!(
                "the position depends on `{other}`, which is neither a size nor a label of the tensor"
            ));
        }
        for (k, axis) in ty.axes.iter().enumerate().filter(|(_, axis)| dim.mentions(&axis.name)) {
            match (k == over, self.facts.range(&axis.name).is_some()) {
                (true, false) => {
                    return Err(format!("the position depends on `{}`, along which it lies", axis.name));
                }
                (false, true) => {
                    return Err(format!(
                        "in the position `{dim}`, `{}` could be a label or a size; label the axis differently",
                        axis.name
                    ));
                }
                _ => {}
            }
        }
        Ok(dim)
    }

    /// Refuses an axis that later extents depend on, or whose own extent does, since its elements do not lie apart.
    pub(super) fn independent(&self, ty: &TensorType, k: usize) -> Result<(), Problem> {
        let name = &ty.axes[k].name;
        if !storage::depends_on(ty, k, self.facts).is_empty() {
            return Err(format!(
                "the extent of `{name}` depends on another axis; this needs one that does not"
            ));
        }
        match (k + 1..ty.axes.len()).find(|&later| storage::depends_on(ty, later, self.facts).contains(&k)) {
            Some(later) => Err(format!("the extent of `{}` depends on `{name}`", ty.axes[later].name)),
            None => Ok(()),
        }
    }

    /// The position of an independent axis among the storage axes.
    pub(super) fn storage_axis(&self, ty: &TensorType, k: usize) -> Result<usize, Problem> {
        self.independent(ty, k)?;
        let packed = Storage::with(ty, self.facts)?;
        Ok(match packed.packed() {
            Some((part, _, _)) if part < k => k - 1,
            _ => k,
        })
    }

    /// The types of results: `inferred`, or with the axes that are stated, if those are equal.
    pub(super) fn settle(
        &self,
        inferred: Vec<TensorType>,
        stated: Option<&[Vec<Axis>]>,
    ) -> Result<Vec<TensorType>, Problem> {
        let Some(stated) = stated else {
            return inferred.into_iter().map(|ty| ordered(ty, self.facts)).collect();
        };
        if stated.len() != inferred.len() {
            return Err(format!("{} lists of axes for {} results", stated.len(), inferred.len()));
        }
        let mut types = Vec::with_capacity(stated.len());
        for (ty, stated) in inferred.into_iter().zip(stated) {
            if stated.len() != ty.axes.len() {
                return Err(format!("{} axes are stated; the result has {}", stated.len(), ty.axes.len()));
            }
            let names: Vec<Symbol> = stated.iter().map(|axis| axis.name.clone()).collect();
            let mut renamed = storage::relabel(&ty, &names, self.facts)?;
            for ((axis, stated), old) in renamed.axes.iter_mut().zip(stated).zip(&ty.axes) {
                axis.extent = self.extent(&axis.extent, stated, &old.name)?;
            }
            types.push(ordered(renamed, self.facts)?);
        }
        Ok(types)
    }

    /// The extent of a stated axis, which must be equal to what is inferred; a label stands for its extent.
    pub(super) fn extent(&self, inferred: &Dim, stated: &Axis, label: &Symbol) -> Result<Dim, Problem> {
        let is_label = stated
            .extent
            .as_symbol()
            .is_some_and(|s| self.facts.range(s).is_none() && (s == label || *s == stated.name));
        if is_label {
            return Ok(inferred.clone());
        }
        if stated.extent == *inferred || self.facts.equal(&stated.extent, inferred).is_yes() {
            return Ok(stated.extent.clone());
        }
        Err(format!(
            "axis `{}` has extent `{inferred}`, which is not known to equal the stated `{}`",
            stated.name, stated.extent
        ))
    }
}

/// The position of the axis with this label.
pub(super) fn position(ty: &TensorType, label: &Symbol) -> Result<usize, Problem> {
    ty.axes.iter().position(|axis| axis.name == *label).ok_or_else(|| {
        let labels: Vec<&str> = ty.axes.iter().map(|axis| axis.name.as_str()).collect();
        format!("there is no axis `{label}`; the axes are [{}]", labels.join(", "))
    })
}

/// The axes behind `->`, for an operator with one result that needs them.
pub(super) fn one(stated: Option<&[Vec<Axis>]>) -> Result<&[Axis], Problem> {
    match stated {
        Some([axes]) => Ok(axes),
        Some(lists) => Err(format!("{} lists of axes for one result", lists.len())),
        None => Err("state the axes of the result, such as `-> [i: S]`".into()),
    }
}

/// The type, if its axes have different names and each extent depends on earlier axes only.
fn ordered(ty: TensorType, facts: &Facts) -> Result<TensorType, Problem> {
    for (k, axis) in ty.axes.iter().enumerate() {
        if ty.axes[..k].iter().any(|other| other.name == axis.name) {
            return Err(format!("two axes are called `{}`; name them behind `->`", axis.name));
        }
        let later = ty.axes[k..]
            .iter()
            .find(|other| facts.range(&other.name).is_none() && axis.extent.mentions(&other.name));
        if let Some(later) = later {
            return Err(format!(
                "the extent of `{}` depends on `{}`, which must come before it",
                axis.name, later.name
            ));
        }
    }
    Ok(ty)
}

/// The names of a result's axes, as an index.
pub(super) fn index_of(ty: &TensorType) -> Vec<Dim> {
    identity(&ty.axes)
}

/// A read everywhere.
pub(super) fn read(operand: usize, index: Vec<Dim>) -> Read {
    Read { operand, index, when: Cond::True }
}

/// The meaning of an operator that defines each element by an expression.
pub(super) fn pointwise(result: &TensorType, reads: Vec<Read>, body: Expr) -> Meaning {
    Meaning::Nests(vec![nest(result, reads, body)])
}

/// A nest that defines each element of a result by an expression.
pub(super) fn nest(result: &TensorType, reads: Vec<Read>, body: Expr) -> Nest {
    Nest {
        axes: result.axes.clone(),
        rank: result.axes.len(),
        reads,
        guard: Cond::True,
        masks: Vec::new(),
        body,
        dtype: result.dtype,
        reduction: None,
        write: index_of(result),
        overwrites: None,
    }
}

/// The only result.
pub(super) fn single(results: &[TensorType]) -> Result<&TensorType, Problem> {
    match results {
        [result] => Ok(result),
        _ => Err("one result is expected".into()),
    }
}
