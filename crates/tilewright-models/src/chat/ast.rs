//! What a template says.

/// A statement, with its line.
#[derive(Debug)]
pub(super) struct Statement {
    /// The line, from 1.
    pub(super) line: usize,
    /// What it does.
    pub(super) action: Action,
}

/// What a statement does.
#[derive(Debug)]
pub(super) enum Action {
    /// Writes a text.
    Text(String),
    /// Writes a value.
    Output(Expr),
    /// Takes the first branch whose condition holds.
    If {
        /// Conditions and what they guard.
        branches: Vec<(Expr, Vec<Statement>)>,
        /// What is done if none holds.
        otherwise: Vec<Statement>,
    },
    /// Runs the body for each item.
    For {
        /// The names that an item is taken apart into.
        names: Vec<String>,
        /// The items.
        items: Expr,
        /// Which items take part.
        filter: Option<Expr>,
        /// What is done for each.
        body: Vec<Statement>,
        /// What is done if there are none.
        otherwise: Vec<Statement>,
    },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next item.
    Continue,
    /// Sets variables.
    Set(Target, Expr),
    /// Sets a variable to what the body writes.
    SetBlock(Target, Vec<Statement>),
    /// Runs the body with further variables.
    With(Vec<(String, Expr)>, Vec<Statement>),
    /// Defines a macro.
    Macro(std::rc::Rc<Macro>),
}

/// What is set.
#[derive(Debug)]
pub(super) enum Target {
    /// Variables; more than one takes a list apart.
    Names(Vec<String>),
    /// An attribute of a namespace.
    Attribute(String, String),
}

/// A macro.
#[derive(Debug)]
pub(super) struct Macro {
    /// The name.
    pub(super) name: String,
    /// Parameters with their defaults.
    pub(super) parameters: Vec<(String, Option<Expr>)>,
    /// The body.
    pub(super) body: Vec<Statement>,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expr {
    /// A constant.
    Literal(Literal),
    /// A variable.
    Name(String),
    /// A list.
    List(Vec<Expr>),
    /// A dictionary.
    Dict(Vec<(Expr, Expr)>),
    /// `not`, `-` or `+`.
    Unary(Unary, Box<Expr>),
    /// Two operands, both evaluated.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// A chain of comparisons.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `and`, `or`: the second is evaluated only if needed.
    Logic(Logic, Box<Expr>, Box<Expr>),
    /// `a if c else b`
    Choice(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    /// `a.b`
    Attribute(Box<Expr>, String),
    /// `a[b]`
    Item(Box<Expr>, Box<Expr>),
    /// `a[b:c:d]`
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    /// `f(x)`
    Call(String, Arguments),
    /// `a.f(x)`
    Method(Box<Expr>, String, Arguments),
    /// `a | f(x)`
    Filter(Box<Expr>, String, Arguments),
    /// `a is f(x)`
    Test(Box<Expr>, String, Arguments),
}

/// A constant.
#[derive(Debug)]
#[allow(missing_docs)]
pub(super) enum Literal {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(std::rc::Rc<str>),
}

/// The arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// By position.
    pub(super) positional: Vec<Expr>,
    /// By name.
    pub(super) named: Vec<(String, Expr)>,
}

/// Operators on one operand.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub(super) enum Unary {
    Not,
    Minus,
    Plus,
}

/// Operators on two operands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Concatenate,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

/// Operators that may leave the second operand out.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub(super) enum Logic {
    And,
    Or,
}
