//! Updates: whose memory a tensor takes over.

use super::{Lowering, id};
use crate::block::ir::{Value, ValueId, ValueType};
use crate::error::Error;
use crate::journal::{Journal, Kind};
use crate::tensor::nest::{Expr, Nest};
use crate::tensor::{self, Op, Operand, ParamKind, elementwise, meaning};

impl Lowering<'_> {
    /// Lets the result of the update at `index` take over its operand's memory, or that of a copy of it.
    pub(super) fn take_over(
        &mut self,
        index: usize,
        node: &tensor::Node,
        nests: &[Nest],
        operand: usize,
        result: ValueId,
        journal: &mut Journal,
    ) -> Result<(), Error> {
        let Some(older) = meaning::source(node, operand) else {
            let message = "an update of a number".to_string();
            return Err(Error::Program { place: self.place(node), message });
        };
        let subject = format!("{}: {}", self.source.name, self.name(result));
        let name = self.name(id(older));
        let base = if self.is_free(index, node, nests, operand, older) {
            journal.record("block", Kind::Chose, subject, format!("written in place of `{name}`"));
            id(older)
        } else {
            let reason = format!("not written in place: `{name}` may be needed, and is copied");
            journal.record("block", Kind::Refused, subject, reason);
            self.copy(older)?
        };
        if let Some(Value { ty: ValueType::Tensor { alias, .. }, .. }) =
            self.values.get_mut(result.0 as usize)
        {
            *alias = Some(base);
        }
        Ok(())
    }

    /// Whether nobody needs the contents that a value has before the node at `index` overwrites it.
    fn is_free(
        &self,
        index: usize,
        node: &tensor::Node,
        nests: &[Nest],
        operand: usize,
        value: tensor::ValueId,
    ) -> bool {
        let param = self.source.params.iter().find(|param| param.value == value);
        let is_ours = param.is_none_or(|param| self.is_main && param.kind == ParamKind::State);
        // What a function gives may be memory that it was given.
        let is_of_call = self.source.nodes.iter().any(|node| {
            matches!(node.op, Op::Call { .. } | Op::Repeat { .. }) && node.results.contains(&value)
        });
        let is_result = self.source.results.contains(&value);
        let is_table = self.source.values.get(value.0 as usize).is_none_or(|value| value.ty.dtype.is_int());
        let read_here =
            node.operands.iter().enumerate().any(|(k, other)| k != operand && reads(other, value))
                || nests
                    .iter()
                    .flat_map(|nest| &nest.reads)
                    .any(|read| meaning::source(node, read.operand) == Some(value))
                || nests.len() > 1;
        let later = self.source.nodes.iter().skip(index + 1).any(|node| {
            node.operands.iter().any(|operand| reads(operand, value)) || masks(node).any(|mask| mask == value)
        });
        is_ours && !is_of_call && !is_result && !is_table && !read_here && !later
    }

    /// Adds a map that copies a tensor, and gives the copy.
    fn copy(&mut self, older: tensor::ValueId) -> Result<ValueId, Error> {
        let Some(ty) = self.source.values.get(older.0 as usize).map(|value| value.ty.clone()) else {
            return Err(Error::Bug { stage: "tensor", message: format!("there is no value {}", older.0) });
        };
        let cast = elementwise::find("cast")
            .ok_or(Error::Bug { stage: "tensor", message: "there is no function `cast`".to_string() })?;
        let name = format!("{}_copy", self.name(id(older)));
        let copy = self.add(&name, ValueType::Tensor { ty: ty.clone(), alias: None });
        // The meaning of `copy = cast older`, without the cast.
        let mut scratch = self.source.clone();
        let result = tensor::ValueId(scratch.values.len() as u32);
        scratch.values.push(tensor::Value { name: name.as_str().into(), ty: ty.clone() });
        let node = tensor::Node {
            op: Op::Elementwise { function: cast },
            operands: vec![Operand::Value { value: older, labels: ty.labels() }],
            result_labels: ty.labels(),
            results: vec![result],
        };
        let problem = |message| Error::Program { place: name.clone(), message };
        let mut nests = match meaning::meaning_with(&self.facts, &scratch, &node).map_err(problem)? {
            tensor::ops::Meaning::Nests(nests) => nests,
            tensor::ops::Meaning::Opaque { .. } => Vec::new(),
        };
        let mut nest = nests.pop().ok_or_else(|| problem("a copy without loops".to_string()))?;
        nest.body = Expr::Read(0);
        let map = self.nest(&node, &nest, copy, &mut Journal::new())?;
        self.body.push(map);
        Ok(copy)
    }
}

fn reads(operand: &Operand, value: tensor::ValueId) -> bool {
    matches!(operand, Operand::Value { value: other, .. } if *other == value)
}

fn masks(node: &tensor::Node) -> impl Iterator<Item = tensor::ValueId> {
    let guard = match &node.op {
        Op::Reduce { guard, .. } | Op::Contract { guard, .. } => Some(guard),
        _ => None,
    };
    guard.into_iter().flat_map(|guard| guard.masks.iter().map(|(value, _)| *value))
}
