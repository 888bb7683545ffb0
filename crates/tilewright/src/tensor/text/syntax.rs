//! The syntax tree of a text, before names and types are known: what stands where.

use crate::dim::{Cond, Dim, Facts, Symbol};
use crate::tensor::dtype::{DType, Scalar};
use crate::tensor::ir::{Attribute, Axis, ParamKind, TensorType};
use crate::text::Span;

/// Something and where it stands.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// What.
    pub item: T,
    /// Where.
    pub span: Span,
}

/// A whole text.
pub struct File {
    /// The functions; the last one is the program.
    pub functions: Vec<FunctionSyntax>,
    /// The facts behind `where`.
    pub facts: Spanned<Facts>,
}

/// A function.
pub struct FunctionSyntax {
    /// Its name.
    pub name: Spanned<Symbol>,
    /// Its parameters.
    pub params: Vec<ParamSyntax>,
    /// The types of its results as stated behind `->`.
    pub results: Vec<Spanned<TensorType>>,
    /// Its statements.
    pub body: Vec<Statement>,
    /// What it returns.
    pub returns: Returns,
}

/// A parameter.
pub struct ParamSyntax {
    /// Its name.
    pub name: Spanned<Symbol>,
    /// Its kind, where stated.
    pub kind: Option<Spanned<ParamKind>>,
    /// Its type.
    pub ty: Spanned<TensorType>,
}

/// `names = operator …`
pub struct Statement {
    /// The names of the results.
    pub names: Vec<Spanned<Symbol>>,
    /// The operator applied.
    pub op: OpSyntax,
}

/// What stands behind `return`.
pub enum Returns {
    /// Values.
    Values(Vec<Spanned<Symbol>>),
    /// An operator, all of whose results are returned.
    Op(Box<OpSyntax>),
}

/// An operator applied.
pub struct OpSyntax {
    /// The operator's or the function's name.
    pub head: Spanned<Symbol>,
    /// The rest.
    pub form: Form,
}

/// How an operator is applied.
pub enum Form {
    /// `head operands clauses`
    Plain(Plain),
    /// `head(arguments)`
    Call(Vec<Spanned<Symbol>>),
    /// `repeat …`
    Repeat(RepeatSyntax),
}

/// Operands and clauses of an operator.
#[derive(Default)]
pub struct Plain {
    /// The operands.
    pub operands: Vec<Spanned<OperandSyntax>>,
    /// Behind `over`.
    pub over: Option<Spanned<Vec<Symbol>>>,
    /// Behind `where`.
    pub guard: Option<Spanned<GuardSyntax>>,
    /// Behind `accumulate`.
    pub accumulate: Option<Spanned<DType>>,
    /// Behind `to`.
    pub to: Option<Spanned<DType>>,
    /// Behind the keywords of an operator of `tensor/ops`, in their order.
    pub attributes: Vec<Option<Spanned<Attribute>>>,
    /// Behind `->`.
    pub stated: Option<Spanned<Vec<Vec<Axis>>>>,
}

/// An operand.
#[derive(Clone, Debug)]
pub enum OperandSyntax {
    /// A value or a size.
    Name {
        /// Its name.
        name: Symbol,
        /// Its labels, where stated; none for `_`.
        labels: Option<Vec<Option<Symbol>>>,
    },
    /// A number.
    Literal(Scalar),
    /// A size in parentheses.
    Dim(Dim),
}

/// A guard.
#[derive(Clone, Debug)]
pub struct GuardSyntax {
    /// The condition.
    pub condition: Cond,
    /// The masks under labels.
    pub masks: Vec<(Spanned<Symbol>, Vec<Symbol>)>,
}

/// A repeat.
pub struct RepeatSyntax {
    /// The coordinate.
    pub coordinate: Spanned<Symbol>,
    /// The number of iterations.
    pub extent: Spanned<Dim>,
    /// The carried values: inner name and first value.
    pub carried: Vec<(Spanned<Symbol>, Spanned<Symbol>)>,
    /// The function.
    pub function: Spanned<Symbol>,
    /// Its arguments: a name, and whether it is sliced.
    pub arguments: Vec<(Spanned<Symbol>, bool)>,
    /// What becomes of its results: a carried name, or none for a stack.
    pub results: Vec<Spanned<Option<Symbol>>>,
}
