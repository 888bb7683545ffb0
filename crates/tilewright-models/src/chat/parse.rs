//! From tokens to statements and expressions, by recursive descent.

use std::rc::Rc;

use super::Error;
use super::ast::{
    Action, Arguments, Binary, Comparison, Expr, Literal, Logic, Macro, Statement, Target, Unary,
};
use super::lex::{Token, lex};

/// How deep statements and expressions may nest. A chain of operators nests by its length.
const DEEPEST: usize = 150;

/// The statements of a template.
pub(super) fn parse(source: &str) -> Result<Vec<Statement>, Error> {
    let mut parser = Parser { tokens: lex(source)?, at: 0, depth: 0, loops: 0 };
    let statements = parser.statements(&[])?;
    match parser.peek() {
        None => Ok(statements),
        Some(_) => parser.wrong("unexpected end of a block"),
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    /// How many loops surround the place.
    loops: usize,
}

/// A parsed part, or what is wrong.
type Parsed<T> = Result<T, Error>;

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|(token, _)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(Error::Template { line: Some(self.line()), message: message.into() })
    }

    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the template".to_string(),
            Some(Token::Text(_)) => "text".to_string(),
            Some(Token::OutputStart) => "`{{`".to_string(),
            Some(Token::BlockStart) => "`{%`".to_string(),
            Some(Token::End) => "the end of the tag".to_string(),
            Some(Token::Name(name)) => format!("`{}`", crate::gguf::shown(name)),
            Some(Token::Str(_)) => "a string".to_string(),
            Some(Token::Int(_) | Token::Float(_)) => "a number".to_string(),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
        };
        self.wrong(format!("{what} expected, {found} found"))
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(s)) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn need_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.sign(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(name)) if name == word)
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.expected("a name"),
        }
    }

    fn end(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(Token::End) => {
                self.at += 1;
                Ok(())
            }
            _ => self.expected("the end of the tag"),
        }
    }

    /// Goes one level deeper; the caller restores the depth.
    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEEPEST { self.wrong(format!("nested more than {DEEPEST} deep")) } else { Ok(()) }
    }

    /// Parses one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        let depth = self.depth;
        self.deeper()?;
        let result = parse(self);
        self.depth = depth;
        result
    }

    /// Statements up to a block that begins with one of `ends`, or to the end of the template.
    fn statements(&mut self, ends: &[&str]) -> Parsed<Vec<Statement>> {
        self.nested(|parser| {
            let mut statements = Vec::new();
            while let Some(token) = parser.peek() {
                let line = parser.line();
                let action = match token {
                    Token::Text(text) => {
                        let action = Action::Text(text.clone());
                        parser.at += 1;
                        action
                    }
                    Token::OutputStart => {
                        parser.at += 1;
                        let value = parser.tuple()?;
                        parser.end()?;
                        Action::Output(value)
                    }
                    Token::BlockStart => {
                        let ends_here =
                            matches!(parser.peek_second(), Some(Token::Name(name)) if ends.contains(&name.as_str()));
                        if ends_here {
                            return Ok(statements);
                        }
                        parser.at += 1;
                        let name = parser.name()?;
                        match parser.block(&name)? {
                            Some(action) => action,
                            None => {
                                // A block that marks what a model is trained on.
                                statements.extend(parser.body(&["endgeneration"])?);
                                continue;
                            }
                        }
                    }
                    _ => return parser.expected("a tag"),
                };
                statements.push(Statement { line, action });
            }
            if ends.is_empty() { Ok(statements) } else { parser.expected(&format!("`{{% {} %}}`", ends.join(" or "))) }
        })
    }

    /// Statements up to the one block that ends them, and that block.
    fn body(&mut self, ends: &[&str]) -> Parsed<Vec<Statement>> {
        self.end()?;
        let statements = self.statements(ends)?;
        self.at += 2;
        self.end()?;
        Ok(statements)
    }

    /// The statement that begins with a name; none for `generation`.
    fn block(&mut self, name: &str) -> Parsed<Option<Action>> {
        Ok(Some(match name {
            "if" => self.block_if()?,
            "for" => self.block_for()?,
            "set" => self.block_set()?,
            "with" => {
                let mut variables = Vec::new();
                while !matches!(self.peek(), Some(Token::End)) {
                    let name = self.name()?;
                    self.need_sign("=")?;
                    variables.push((name, self.expr()?));
                    if !self.sign(",") {
                        break;
                    }
                }
                Action::With(variables, self.body(&["endwith"])?)
            }
            "macro" => {
                let name = self.name()?;
                let mut parameters = Vec::new();
                self.need_sign("(")?;
                while !self.sign(")") {
                    let parameter = self.name()?;
                    let default = if self.sign("=") { Some(self.expr()?) } else { None };
                    parameters.push((parameter, default));
                    if !self.sign(",") {
                        self.need_sign(")")?;
                        break;
                    }
                }
                let loops = std::mem::take(&mut self.loops);
                let body = self.body(&["endmacro"])?;
                self.loops = loops;
                Action::Macro(Rc::new(Macro { name, parameters, body }))
            }
            "break" | "continue" => {
                if self.loops == 0 {
                    return self.wrong(format!("`{name}` outside of a loop"));
                }
                self.end()?;
                if name == "break" { Action::Break } else { Action::Continue }
            }
            "generation" => return Ok(None),
            _ => {
                let shown = crate::gguf::shown(name);
                return self.wrong(format!("`{shown}` is not supported; if, for, set, with and macro are"));
            }
        }))
    }

    fn block_if(&mut self) -> Parsed<Action> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.tuple()?;
            self.end()?;
            branches.push((condition, self.statements(&["elif", "else", "endif"])?));
            self.at += 1;
            if self.word("elif") {
                continue;
            }
            if self.word("else") {
                otherwise = self.body(&["endif"])?;
            } else {
                self.at += 1;
                self.end()?;
            }
            return Ok(Action::If { branches, otherwise });
        }
    }

    fn block_for(&mut self) -> Parsed<Action> {
        let names = self.names()?;
        if !self.word("in") {
            return self.expected("`in`");
        }
        // A condition behind the items is the loop's own.
        let items = self.logic_or()?;
        let filter = if self.word("if") { Some(self.expr()?) } else { None };
        self.end()?;
        self.loops += 1;
        let body = self.statements(&["else", "endfor"])?;
        self.loops -= 1;
        self.at += 1;
        let otherwise = if self.word("else") {
            self.body(&["endfor"])?
        } else {
            self.at += 1;
            self.end()?;
            Vec::new()
        };
        Ok(Action::For { names, items, filter, body, otherwise })
    }

    fn block_set(&mut self) -> Parsed<Action> {
        let target = match (self.peek(), self.peek_second()) {
            (Some(Token::Name(name)), Some(Token::Sign("."))) => {
                let name = name.clone();
                self.at += 2;
                Target::Attribute(name, self.name()?)
            }
            _ => Target::Names(self.names()?),
        };
        if self.sign("=") {
            let value = self.tuple()?;
            self.end()?;
            return Ok(Action::Set(target, value));
        }
        Ok(Action::SetBlock(target, self.body(&["endset"])?))
    }

    /// One or more names with commas between, perhaps in parentheses.
    fn names(&mut self) -> Parsed<Vec<String>> {
        let closed = self.sign("(");
        let mut names = vec![self.name()?];
        while self.sign(",") {
            if !matches!(self.peek(), Some(Token::Name(_))) {
                break;
            }
            names.push(self.name()?);
        }
        if closed {
            self.need_sign(")")?;
        }
        Ok(names)
    }

    /// An expression, or several with commas between, which are a list.
    fn tuple(&mut self) -> Parsed<Expr> {
        let first = self.expr()?;
        if !matches!(self.peek(), Some(Token::Sign(","))) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.sign(",") && !matches!(self.peek(), Some(Token::End | Token::Sign(")"))) {
            items.push(self.expr()?);
        }
        Ok(Expr::List(items))
    }

    fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|parser| {
            let mut value = parser.logic_or()?;
            while parser.word("if") {
                parser.deeper()?;
                let condition = parser.logic_or()?;
                let otherwise = if parser.word("else") { Some(Box::new(parser.expr()?)) } else { None };
                value = Expr::Choice(Box::new(value), Box::new(condition), otherwise);
            }
            Ok(value)
        })
    }

    /// Operands with left-associative operators between.
    fn chain(
        &mut self,
        operand: fn(&mut Parser) -> Parsed<Expr>,
        operator: impl Fn(&mut Parser) -> Option<Binary>,
    ) -> Parsed<Expr> {
        let depth = self.depth;
        let mut left = operand(self)?;
        while let Some(op) = operator(self) {
            self.deeper()?;
            left = Expr::Binary(op, Box::new(left), Box::new(operand(self)?));
        }
        self.depth = depth;
        Ok(left)
    }

    fn logic(&mut self, word: &str, op: Logic, operand: fn(&mut Parser) -> Parsed<Expr>) -> Parsed<Expr> {
        let depth = self.depth;
        let mut left = operand(self)?;
        while self.word(word) {
            self.deeper()?;
            left = Expr::Logic(op, Box::new(left), Box::new(operand(self)?));
        }
        self.depth = depth;
        Ok(left)
    }

    fn logic_or(&mut self) -> Parsed<Expr> {
        self.logic("or", Logic::Or, Parser::logic_and)
    }

    fn logic_and(&mut self) -> Parsed<Expr> {
        self.logic("and", Logic::And, Parser::logic_not)
    }

    fn logic_not(&mut self) -> Parsed<Expr> {
        if self.word("not") {
            let operand = self.nested(Parser::logic_not)?;
            return Ok(Expr::Unary(Unary::Not, Box::new(operand)));
        }
        self.compare()
    }

    fn compare(&mut self) -> Parsed<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let not_in =
                self.is_word("not") && matches!(self.peek_second(), Some(Token::Name(n)) if n == "in");
            let op = match self.peek() {
                Some(Token::Sign("==")) => Comparison::Equal,
                Some(Token::Sign("!=")) => Comparison::NotEqual,
                Some(Token::Sign("<")) => Comparison::Less,
                Some(Token::Sign("<=")) => Comparison::LessEqual,
                Some(Token::Sign(">")) => Comparison::Greater,
                Some(Token::Sign(">=")) => Comparison::GreaterEqual,
                Some(Token::Name(name)) if name == "in" => Comparison::In,
                _ if not_in => Comparison::NotIn,
                _ => break,
            };
            self.at += 1 + usize::from(not_in);
            rest.push((op, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    /// One of some signs.
    fn one_of(&mut self, signs: &[(&str, Binary)]) -> Option<Binary> {
        signs.iter().find_map(|(sign, op)| self.sign(sign).then_some(*op))
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.chain(Parser::concatenation, |p| p.one_of(&[("+", Binary::Add), ("-", Binary::Subtract)]))
    }

    fn concatenation(&mut self) -> Parsed<Expr> {
        self.chain(Parser::product, |p| p.one_of(&[("~", Binary::Concatenate)]))
    }

    fn product(&mut self) -> Parsed<Expr> {
        let operators = [
            ("*", Binary::Multiply),
            ("/", Binary::Divide),
            ("//", Binary::FloorDivide),
            ("%", Binary::Remainder),
        ];
        self.chain(Parser::power, move |p| p.one_of(&operators))
    }

    fn power(&mut self) -> Parsed<Expr> {
        self.chain(|p| p.unary(true), |p| p.one_of(&[("**", Binary::Power)]))
    }

    fn unary(&mut self, with_filters: bool) -> Parsed<Expr> {
        let depth = self.depth;
        let mut value = if self.sign("-") {
            Expr::Unary(Unary::Minus, Box::new(self.nested(|p| p.unary(false))?))
        } else if self.sign("+") {
            Expr::Unary(Unary::Plus, Box::new(self.nested(|p| p.unary(false))?))
        } else {
            self.primary()?
        };
        loop {
            self.deeper()?;
            value = match self.peek() {
                Some(Token::Sign(".")) => {
                    self.at += 1;
                    let name = match self.peek() {
                        Some(Token::Int(index)) => {
                            let index = Expr::Literal(Literal::Int(*index));
                            self.at += 1;
                            value = Expr::Item(Box::new(value), Box::new(index));
                            continue;
                        }
                        _ => self.name()?,
                    };
                    if matches!(self.peek(), Some(Token::Sign("("))) {
                        Expr::Method(Box::new(value), name, self.arguments()?)
                    } else {
                        Expr::Attribute(Box::new(value), name)
                    }
                }
                Some(Token::Sign("[")) => {
                    self.at += 1;
                    self.subscript(value)?
                }
                Some(Token::Sign("(")) => match value {
                    Expr::Name(name) => Expr::Call(name, self.arguments()?),
                    _ => return self.wrong("only functions, macros and methods can be called"),
                },
                Some(Token::Sign("|")) if with_filters => {
                    self.at += 1;
                    let name = self.name()?;
                    let arguments = self.optional_arguments()?;
                    Expr::Filter(Box::new(value), name, arguments)
                }
                Some(Token::Name(name)) if with_filters && name == "is" => {
                    self.at += 1;
                    self.test(value)?
                }
                _ => break,
            };
        }
        self.depth = depth;
        Ok(value)
    }

    fn subscript(&mut self, value: Expr) -> Parsed<Expr> {
        let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
        let mut colons = 0;
        for part in &mut parts {
            if !matches!(self.peek(), Some(Token::Sign(":" | "]"))) {
                *part = Some(Box::new(self.expr()?));
            }
            if !self.sign(":") {
                break;
            }
            colons += 1;
        }
        self.need_sign("]")?;
        match parts {
            parts if (1..3).contains(&colons) => Ok(Expr::Slice(Box::new(value), parts)),
            [Some(index), None, None] if colons == 0 => Ok(Expr::Item(Box::new(value), index)),
            _ => self.wrong("an index or a slice expected"),
        }
    }

    fn test(&mut self, value: Expr) -> Parsed<Expr> {
        let negated = self.word("not");
        let name = self.name()?;
        let mut arguments = self.optional_arguments()?;
        let bare = match self.peek() {
            Some(Token::Name(name)) => {
                !matches!(name.as_str(), "else" | "or" | "and" | "if" | "is" | "in" | "not")
            }
            Some(Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Sign("[" | "{")) => true,
            _ => false,
        };
        if arguments.positional.is_empty() && arguments.named.is_empty() && bare {
            arguments.positional.push(self.nested(|p| p.unary(false))?);
        }
        let test = Expr::Test(Box::new(value), name, arguments);
        Ok(if negated { Expr::Unary(Unary::Not, Box::new(test)) } else { test })
    }

    fn optional_arguments(&mut self) -> Parsed<Arguments> {
        if matches!(self.peek(), Some(Token::Sign("("))) {
            self.arguments()
        } else {
            Ok(Arguments::default())
        }
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        self.need_sign("(")?;
        let mut arguments = Arguments::default();
        while !self.sign(")") {
            match (self.peek(), self.peek_second()) {
                (Some(Token::Name(name)), Some(Token::Sign("="))) => {
                    let name = name.clone();
                    self.at += 2;
                    arguments.named.push((name, self.expr()?));
                }
                _ if arguments.named.is_empty() => arguments.positional.push(self.expr()?),
                _ => return self.wrong("arguments by position come first"),
            }
            if !self.sign(",") {
                self.need_sign(")")?;
                break;
            }
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let Some(token) = self.peek().cloned() else { return self.expected("a value") };
        let value = match token {
            Token::Str(mut text) => {
                while let Some(Token::Str(more)) = self.peek_second() {
                    text.push_str(more);
                    self.at += 1;
                }
                Expr::Literal(Literal::Str(text.into()))
            }
            Token::Int(x) => Expr::Literal(Literal::Int(x)),
            Token::Float(x) => Expr::Literal(Literal::Float(x)),
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Literal(Literal::Bool(true)),
                "false" | "False" => Expr::Literal(Literal::Bool(false)),
                "none" | "None" => Expr::Literal(Literal::None),
                _ => Expr::Name(name),
            },
            Token::Sign("(") => {
                self.at += 1;
                if self.sign(")") {
                    return Ok(Expr::List(Vec::new()));
                }
                let value = self.tuple()?;
                self.need_sign(")")?;
                return Ok(value);
            }
            Token::Sign("[") => {
                self.at += 1;
                return Ok(Expr::List(self.items("]", Parser::expr)?));
            }
            Token::Sign("{") => {
                self.at += 1;
                let entry = |p: &mut Parser| {
                    let key = p.expr()?;
                    p.need_sign(":")?;
                    Ok((key, p.expr()?))
                };
                return Ok(Expr::Dict(self.items("}", entry)?));
            }
            _ => return self.expected("a value"),
        };
        self.at += 1;
        Ok(value)
    }

    /// Items with commas between, up to a sign.
    fn items<T>(&mut self, end: &str, item: impl Fn(&mut Parser) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.sign(end) {
            items.push(item(self)?);
            if !self.sign(",") {
                self.need_sign(end)?;
                break;
            }
        }
        Ok(items)
    }
}
