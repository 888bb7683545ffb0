//! Operators of `tensor/ops`: their own shape rule, after what is checked of all of them.

use super::axes::{check_dim, check_name, check_type, operand_type};
use super::elementwise::check_scalar;
use super::{At, Problem, Reason, Scope, Typed, count};
use crate::dim::Symbol;
use crate::tensor::ir::{Attribute, Axis, Operand, TensorType};
use crate::tensor::names::is_word;
use crate::tensor::ops::{AttributeKind, Site, Special};

pub(super) fn special(
    scope: &Scope<'_>,
    operator: &'static Special,
    attributes: &[Attribute],
    operands: &[Operand],
    names: &[Symbol],
    stated: Option<&[Vec<Axis>]>,
) -> Result<Typed, Problem> {
    let name = operator.name;
    let (least, most) = operator.operands;
    if operands.len() < least || operands.len() > most {
        let wants = if least == most {
            format!("{least} operand{}", if least == 1 { "" } else { "s" })
        } else if most == usize::MAX {
            format!("{least} operands or more")
        } else {
            format!("{least} to {most} operands")
        };
        return Err(count(name, &wants, operands.len()));
    }
    if attributes.len() != operator.keywords.len() {
        let keywords: Vec<String> =
            operator.keywords.iter().map(|(keyword, _)| format!("`{keyword}`")).collect();
        let message = format!("`{name}` takes {} attributes: {}", keywords.len(), keywords.join(", "));
        return Err(Problem::new(Reason::Operator, message));
    }
    for (index, operand) in operands.iter().enumerate() {
        let Operand::Value { value, .. } = operand else { continue };
        let value = &scope.value(*value)?.name;
        if operator.keywords.iter().any(|(keyword, _)| *keyword == value.as_str()) {
            let message =
                format!("`{value}` is a keyword of `{name}` and names none of its operands; rename it");
            return Err(Problem::new(Reason::Name, message).at(At::Operand(index)));
        }
    }
    let types = operands.iter().map(|operand| operand_type(scope, operand)).collect::<Result<Vec<_>, _>>()?;
    let mut local: Vec<Symbol> = types.iter().flat_map(|ty| ty.labels()).collect();
    local.extend(stated.into_iter().flatten().flatten().map(|axis| axis.name.clone()));
    for (index, (attribute, (keyword, kind))) in attributes.iter().zip(operator.keywords).enumerate() {
        let at = |problem: Problem| problem.at(At::Attribute(index));
        if kind_of(attribute) != *kind {
            return Err(at(Problem::new(
                Reason::Operator,
                format!("`{keyword}` has an attribute of another kind"),
            )));
        }
        match attribute {
            Attribute::Dim(dim) => check_dim(scope, dim, &local).map_err(at)?,
            Attribute::Labels(labels) => {
                for label in labels {
                    check_name(label, "a label").map_err(at)?;
                }
            }
            Attribute::Word(word) => {
                if !is_word(word.as_str()) {
                    return Err(at(Problem::new(Reason::Name, format!("`{word}` is no word"))));
                }
            }
            Attribute::Scalar(scalar) => check_scalar(*scalar).map_err(at)?,
            Attribute::Scalars(scalars) => {
                for scalar in scalars {
                    check_scalar(*scalar).map_err(at)?;
                }
            }
            Attribute::DType(_) => {}
        }
    }
    // The shape rule reads extents, so they are checked before it sees them.
    for axis in stated.into_iter().flatten().flatten() {
        check_dim(scope, &axis.extent, &local).map_err(|problem| problem.at(At::Stated))?;
    }
    let operand_names: Vec<Option<Symbol>> = operands
        .iter()
        .map(|operand| match operand {
            Operand::Value { value, .. } => scope.value(*value).ok().map(|value| value.name.clone()),
            _ => None,
        })
        .collect();
    let site = Site { operands, names: &operand_names, types: &types, attributes, facts: scope.facts };
    let types = (operator.infer)(&site, stated).map_err(|message| Problem::new(Reason::Operator, message))?;
    for (index, ty) in types.iter().enumerate() {
        let earlier: Vec<(Symbol, &TensorType)> = names.iter().cloned().zip(&types).take(index).collect();
        check_type(scope, ty, &earlier).map_err(|problem| problem.at(At::Stated))?;
    }
    Ok(Typed { result_labels: Vec::new(), types })
}

/// The kind of an attribute.
pub fn kind_of(attribute: &Attribute) -> AttributeKind {
    match attribute {
        Attribute::Labels(_) => AttributeKind::Labels,
        Attribute::Dim(_) => AttributeKind::Dim,
        Attribute::Scalar(_) => AttributeKind::Scalar,
        Attribute::DType(_) => AttributeKind::DType,
        Attribute::Word(_) => AttributeKind::Word,
        Attribute::Scalars(_) => AttributeKind::Scalars,
    }
}
