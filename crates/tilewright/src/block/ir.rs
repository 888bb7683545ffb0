//! Where values live: maps over blocks, with explicit movement between memory tiers.
//!
//! A function reads and defines *tensors*, which live in slow memory, by running maps. Inside a map are *items*,
//! blocks that are near. An item has labelled axes; a label stands for the **global** index along its axis and runs
//! over a range that starts at an expression of the enclosing coordinates, so that guards and index expressions
//! mean the same at every depth. A [`Node::Load`] through an access function brings an item near, a [`Node::Store`]
//! puts one into a tensor: that pair, and nothing else, is traffic. A buffered edge is a store and a load of one
//! tensor; a local edge is an item read where it is.
//!
//! ```text
//! y: bf16[S, D] = map m in ceildiv(S, 64) parallel {
//!   a = load x[i, d] {i: 64*m +: 64 < S, d: 0 +: 256 < D}
//!   b: bf16 = mul a a
//!   store b -> y[i, d]
//! }
//! ```

use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::tensor::{
    DType, Elementwise, FunctionId, Monoid, ParamKind, RepeatArgument, RepeatResult, Scalar, Special,
    TensorType,
};

/// A tensor or an item of a function: an index into [`Function::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// The indices that a label of an item runs over: `start ≤ label < min(start + size, end)`, none where that is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The label.
    pub label: Symbol,
    /// The first index, over enclosing coordinates, symbols, elements of integer tensors, and the labels of earlier
    /// axes of the item only where the tensor's own extents depend on them.
    pub start: Dim,
    /// The block size: a positive constant.
    pub size: i64,
    /// The first index that is not there.
    pub end: Dim,
}

/// The type of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemType {
    /// The element type.
    pub dtype: DType,
    /// The axes, outermost first; none for a scalar.
    pub ranges: Vec<Range>,
}

/// A value's type, by where it lives.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueType {
    /// In slow memory. With `alias`, it is that tensor's memory, overwritten in part: the older one is dead from the
    /// node that defines this one on.
    Tensor {
        /// Element type and axes.
        ty: TensorType,
        /// Whose memory it takes over.
        alias: Option<ValueId>,
    },
    /// Near.
    Item(ItemType),
}

/// A tensor or an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name, unique in its function.
    pub name: Symbol,
    /// The type.
    pub ty: ValueType,
}

/// What a near operator reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument<V = ValueId> {
    /// An item; broadcast along the labels that it lacks.
    Item(V),
    /// A number.
    Literal(Scalar),
    /// An index expression over labels and coordinates, as a number.
    Index(Dim),
    /// A condition on labels and coordinates, as a truth value.
    Holds(Cond),
}

/// Which index tuples of a near reduction take part: a condition on labels, and boolean items that must be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The condition.
    pub condition: Cond,
    /// Boolean items.
    pub masks: Vec<ValueId>,
}

/// A step of a function or of a map's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Runs its body for each coordinate.
    Map(Map),
    /// Brings an item near: `item[labels] = source[index]` where `when` holds and the index lies inside, else 0.
    Load(Load),
    /// `target[index] = item[labels]` for every index tuple of the item whose index lies inside; others are dropped.
    Store(Store),
    /// `result[labels] = function(arguments)`, elementwise on items. The result has every label of its arguments; it is
    /// constant along those that none of them has.
    Compute(Compute),
    /// `into[kept labels] ⊕= argument`, in index order, over the argument's labels that the result lacks.
    Reduce(Reduce),
    /// `into[kept labels] += Π arguments`, over the labels that the result lacks, in index order: row-major over them in
    /// the order in which they first appear in the arguments.
    Contract(Contract),
    /// A function of whole tensors; ends fusion. At function level only.
    Opaque(Opaque),
    /// A function applied once. At function level only.
    Call(Call),
    /// A function applied for each coordinate in order. At function level only.
    Repeat(Repeat),
}

/// How the iterations of a map may be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Independent: in any order, at the same time.
    Parallel,
    /// In rising order; carried items pass from one to the next.
    Sequential,
}

/// Runs its body for `coordinate` = 0, 1, … `extent` - 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The coordinate's name, unique along the nesting.
    pub coordinate: Symbol,
    /// The number of iterations, over symbols, outer coordinates and elements of integer tensors.
    pub extent: Dim,
    /// Whether iterations are independent.
    pub order: Order,
    /// What is accumulated over the iterations; sequential maps only.
    pub carries: Vec<Carry>,
    /// The body.
    pub body: Vec<Node>,
    /// At function level: the tensors that stores inside define. Empty in nested maps.
    pub defines: Vec<ValueId>,
}

/// An accumulation over the iterations of a map: a monoid and one item per component of its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Carry {
    /// The monoid.
    pub monoid: &'static Monoid,
    /// The element type that is reduced (what the identity depends on).
    pub dtype: DType,
    /// The state before the first iteration, one item per component; none for the identity. A map inside another
    /// starts from the other's state, so that several reduced axes accumulate in one order.
    pub from: Vec<ValueId>,
    /// The state inside the body, at its start: `from` at first, then what the last iteration left.
    pub state: Vec<ValueId>,
    /// The state at the end of the body.
    pub next: Vec<ValueId>,
    /// The state after the map: `from` if there is no iteration.
    pub result: Vec<ValueId>,
}

/// See [`Node::Load`].
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The tensor.
    pub source: ValueId,
    /// The access function: the index along each axis of the tensor, over the item's labels, coordinates, symbols and
    /// elements of integer tensors.
    pub index: Vec<Dim>,
    /// Where elements are read; elsewhere they are 0.
    pub when: Cond,
    /// The item.
    pub result: ValueId,
}

/// See [`Node::Store`].
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The item.
    pub item: ValueId,
    /// The tensor, one that the enclosing function-level map defines.
    pub target: ValueId,
    /// The index along each axis of the tensor.
    pub index: Vec<Dim>,
}

/// See [`Node::Compute`].
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The table row.
    pub function: &'static Elementwise,
    /// What it reads.
    pub arguments: Vec<Argument>,
    /// The item; its type states element type and ranges.
    pub result: ValueId,
}

/// See [`Node::Reduce`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The monoid.
    pub monoid: &'static Monoid,
    /// What is reduced.
    pub argument: ValueId,
    /// For a monoid that yields a position: the position of an element in the whole reduction, over labels.
    pub position: Dim,
    /// Which elements take part.
    pub guard: Guard,
    /// The state to start from, one item per component; none for the identity.
    pub into: Vec<ValueId>,
    /// The state after, one item per component.
    pub results: Vec<ValueId>,
}

/// See [`Node::Contract`].
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    /// The factors, one to three items.
    pub arguments: Vec<ValueId>,
    /// Which terms take part.
    pub guard: Guard,
    /// The sum to start from; none for 0.
    pub into: Option<ValueId>,
    /// The sum after; its element type is the type of products and of the running sum.
    pub result: ValueId,
}

/// See [`Node::Opaque`].
#[derive(Clone, Debug, PartialEq)]
pub struct Opaque {
    /// The operator, one whose meaning is opaque.
    pub operator: &'static Special,
    /// The storage axis of the first operand along which it works.
    pub axis: usize,
    /// Its operands, whole.
    pub operands: Vec<ValueId>,
    /// Its results, whole.
    pub results: Vec<ValueId>,
}

/// See [`Node::Call`].
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Which function.
    pub function: FunctionId,
    /// The arguments.
    pub arguments: Vec<ValueId>,
    /// The results.
    pub results: Vec<ValueId>,
}

/// See [`Node::Repeat`].
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// The coordinate's name.
    pub coordinate: Symbol,
    /// The number of iterations.
    pub extent: Dim,
    /// Which function.
    pub function: FunctionId,
    /// The operands and how each becomes an argument.
    pub arguments: Vec<(ValueId, RepeatArgument)>,
    /// The results and what becomes of each; as many as the function has.
    pub results: Vec<(ValueId, RepeatResult)>,
}

/// Nodes in order, from parameters to results.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The name, unique in the program.
    pub name: Symbol,
    /// The parameters: tensors.
    pub params: Vec<Param>,
    /// All tensors and items.
    pub values: Vec<Value>,
    /// The steps.
    pub body: Vec<Node>,
    /// What the function returns: tensors.
    pub results: Vec<ValueId>,
}

/// Functions over one set of symbols; the last is the program itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The functions, callees first.
    pub functions: Vec<Function>,
    /// What is known of the symbols.
    pub facts: Facts,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The tensor it defines.
    pub value: ValueId,
    /// Where its contents come from.
    pub kind: ParamKind,
}

impl Range {
    /// The last index plus one: `min(start + size, end)`.
    pub fn stop(&self) -> Dim {
        (self.start.clone() + self.size).min(self.end.clone())
    }
}

impl Function {
    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The type of a tensor, or none for an item.
    pub fn tensor(&self, id: ValueId) -> Option<&TensorType> {
        match &self.value(id).ty {
            ValueType::Tensor { ty, .. } => Some(ty),
            ValueType::Item(_) => None,
        }
    }

    /// The type of an item, or none for a tensor.
    pub fn item(&self, id: ValueId) -> Option<&ItemType> {
        match &self.value(id).ty {
            ValueType::Tensor { .. } => None,
            ValueType::Item(ty) => Some(ty),
        }
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
