//! What to compute: SSA over tensors with named axes and symbolic extents, in functions.
//!
//! A *value* has an element type and axes; an axis has a name, unique in its type, and an extent. An operand
//! reads a value under *labels*, one per axis of the value; an operator's axes are its labels, so that
//! `mul x[i, j] r[i]` multiplies each row and `contract a[m, k] b[n, k] -> [m, n]` sums over `k`. A label stands
//! for the index along its axis in guards and in dependent extents.

use super::dtype::{DType, Scalar};
use super::elementwise::Elementwise;
use super::monoid::Monoid;
use super::ops::Special;
use crate::dim::{Cond, Dim, Facts, Symbol};

/// A value of a function: an index into [`Function::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// An operator of a function: an index into [`Function::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub u32);

/// A function: an index into [`Program::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A named axis and how many indices it has. The extent is over symbols of the program, names of *earlier* axes of
/// the same type (a dependent extent), and elements of integer tensors of the function (a ragged extent,
/// `off[e + 1] - off[e]`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// The name, unique in its type.
    pub name: Symbol,
    /// The number of indices.
    pub extent: Dim,
}

/// The type of a value: element type and axes, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The axes; none for a scalar.
    pub axes: Vec<Axis>,
}

/// A value of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name, unique in its function; extents and guards name integer tensors by it.
    pub name: Symbol,
    /// The type.
    pub ty: TensorType,
}

/// Where a parameter's contents come from, which is also when they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamKind {
    /// Given at each run.
    Input,
    /// Given once, at load; work on weights alone is hoisted into `prepare`.
    Weight,
    /// Integers known when a plan is made: lengths, offsets, page tables.
    Plan,
    /// Kept by the caller between runs and updated in place.
    State,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The value it defines.
    pub value: ValueId,
    /// Its kind; `Input` in functions other than the program itself.
    pub kind: ParamKind,
}

/// What an operator reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A value under labels, one per axis of the value, all different.
    Value {
        /// The value.
        value: ValueId,
        /// The label of each axis.
        labels: Vec<Symbol>,
    },
    /// A number; it takes the element type of the other operands.
    Literal(Scalar),
    /// A size, as a number.
    Dim(Dim),
}

/// A condition on the indices and on boolean tensors. What is outside does not take part: it is never read into
/// the result, NaN included. The empty guard is `Cond::True` with no masks.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The condition over labels, symbols and elements of integer tensors.
    pub condition: Cond,
    /// Boolean tensors under labels of the operator; all must be true.
    pub masks: Vec<(ValueId, Vec<Symbol>)>,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// An elementwise function over the union of the operands' labels.
    Elementwise {
        /// The table row.
        function: &'static Elementwise,
    },
    /// A reduction of one operand over some of its labels.
    Reduce {
        /// The table row.
        monoid: &'static Monoid,
        /// The labels that are reduced, in the order of the operand.
        over: Vec<Symbol>,
        /// Which elements take part.
        guard: Guard,
        /// The type in which the state accumulates.
        accumulate: DType,
    },
    /// The sum, over every label that the result lacks, of the product of one to three operands.
    Contract {
        /// Which terms take part.
        guard: Guard,
        /// The type of products and of the running sum.
        accumulate: DType,
    },
    /// Any other operator: one file of `tensor/ops` each.
    Special {
        /// The operator's descriptor.
        operator: &'static Special,
        /// Its attributes, in the order of the descriptor.
        attributes: Vec<Attribute>,
    },
    /// A function applied once.
    Call {
        /// Which.
        function: FunctionId,
    },
    /// A function applied for `coordinate` = 0, 1, … `extent` - 1.
    Repeat {
        /// The coordinate's name.
        coordinate: Symbol,
        /// The number of iterations, possibly 0.
        extent: Dim,
        /// Which function.
        function: FunctionId,
        /// How each operand of the node becomes an argument.
        arguments: Vec<RepeatArgument>,
        /// What becomes of each result of the function.
        results: Vec<RepeatResult>,
    },
}

/// How an operand of a repeat becomes an argument of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepeatArgument {
    /// The whole operand, the same at each iteration.
    Shared,
    /// The operand's slice at the coordinate along its first axis.
    Sliced,
    /// The operand at first, then a result of the previous iteration; `name` is what the text calls it.
    Carried {
        /// The name in the text form.
        name: Symbol,
    },
}

/// What becomes of a result of a repeated function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepeatResult {
    /// It is the carried argument with this index among the node's operands; the last one is the node's result.
    Carried(usize),
    /// The results of all iterations, stacked along a new first axis named like the coordinate.
    Stacked,
}

/// An attribute of a special operator; the text writes it after its keyword.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// Labels of the operand: `over i, j`.
    Labels(Vec<Symbol>),
    /// A size or position: `from a`, `size n`, `by c`, `at p`.
    Dim(Dim),
    /// A number: `with 0.0`.
    Scalar(Scalar),
    /// An element type: `to f32`.
    DType(DType),
    /// A name from a table: `as q4_0`.
    Word(Symbol),
    /// Numbers: `values 1.0, 2.0`.
    Scalars(Vec<Scalar>),
}

/// One operator applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is done.
    pub op: Op,
    /// What it reads.
    pub operands: Vec<Operand>,
    /// The operands' label that each axis of the result carries, in the order of the result's axes, for an
    /// elementwise function, a reduction or a contraction; empty for every other operator. The axis's *name* is the
    /// label unless the program renames it (`-> [rows: i]` has label `i` and an axis `rows`).
    pub result_labels: Vec<Symbol>,
    /// What it defines. Element type and axes stand in the values.
    pub results: Vec<ValueId>,
}

/// Operators in order of definition, from parameters to results.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The name, unique in the program.
    pub name: Symbol,
    /// The parameters in order.
    pub params: Vec<Param>,
    /// All values: parameters and results of nodes.
    pub values: Vec<Value>,
    /// The operators, each after what it reads.
    pub nodes: Vec<Node>,
    /// What the function returns, in order.
    pub results: Vec<ValueId>,
}

/// Functions over one set of symbols. The *last* function is the program itself; a function calls earlier ones
/// only.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The functions, callees first.
    pub functions: Vec<Function>,
    /// What is known of the symbols and the integer tensors of the program itself.
    pub facts: Facts,
}

impl Guard {
    /// The guard that admits everything.
    pub fn always() -> Guard {
        Guard { condition: Cond::True, masks: Vec::new() }
    }

    /// Whether the guard admits everything.
    pub fn is_always(&self) -> bool {
        self.condition == Cond::True && self.masks.is_empty()
    }
}

impl TensorType {
    /// A type from an element type and `(name, extent)` pairs.
    pub fn new<N: Into<Symbol>, D: Into<Dim>>(
        dtype: DType,
        axes: impl IntoIterator<Item = (N, D)>,
    ) -> TensorType {
        let axis = |(name, extent): (N, D)| Axis { name: name.into(), extent: extent.into() };
        TensorType { dtype, axes: axes.into_iter().map(axis).collect() }
    }

    /// The axes' names, which are the labels of an operand that states none.
    pub fn labels(&self) -> Vec<Symbol> {
        self.axes.iter().map(|axis| axis.name.clone()).collect()
    }
}

impl Function {
    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The value with this name.
    pub fn find(&self, name: &Symbol) -> Option<ValueId> {
        self.values.iter().position(|value| value.name == *name).map(|index| ValueId(index as u32))
    }
}

impl Program {
    /// The program itself: the last function.
    pub fn main(&self) -> &Function {
        self.functions.last().expect("a program has at least one function")
    }

    /// The function behind an id.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }
}
