//! Repeats: the memory of arguments and results before, the iterations, and what is left after.

use super::flatten::{Flattener, Frame, View, bug, fresh};
use super::summary::{Place, in_place};
use crate::block::{Repeat, ValueId};
use crate::dim::Dim;
use crate::error::Error;
use crate::task::ir::Step;
use crate::tensor::{RepeatArgument, RepeatResult};
use std::collections::BTreeMap;

impl<'a> Flattener<'a> {
    /// Emits a repeat.
    pub fn repeat(&mut self, frame: &mut Frame<'a>, position: usize, repeat: &Repeat) -> Result<(), Error> {
        let (function, summary) = self.callee(repeat.function)?;
        let extent = self.dim(frame, &repeat.extent);
        let nonneg = self.facts.nonneg(&extent).is_yes();
        let extent = if nonneg { extent } else { extent.max(Dim::constant(0)) };
        let coordinate = fresh(&mut self.used_names, &repeat.coordinate);
        let l = Dim::symbol(coordinate.clone());
        let ids: Vec<ValueId> = repeat.arguments.iter().map(|(id, _)| *id).collect();

        // Before the repeat: the memory of arguments.
        let mut args = Vec::new();
        let mut outside: Vec<View> = Vec::new();
        for (k, (id, kind)) in repeat.arguments.iter().enumerate() {
            let name = frame.tensor(*id)?.0.clone();
            let overwritten = summary.overwritten.get(k).copied().unwrap_or(false);
            let stays = (0..repeat.results.len())
                .any(|r| in_place(&repeat.arguments, &summary, r, &repeat.results[r].1) == Some(k));
            let (whole, inside) = match kind {
                RepeatArgument::Shared => (frame.view(*id)?.clone(), frame.view(*id)?.clone()),
                RepeatArgument::Sliced => {
                    if self
                        .storage(frame, *id)?
                        .1
                        .packed()
                        .is_some_and(|(part, axis, _)| part == 0 || axis == 0)
                    {
                        return Err(Error::Unsupported {
                            place: frame.function.name.to_string(),
                            what: format!("a slice of `{name}` along a ragged axis"),
                            instead: "slice along a dense first axis".to_string(),
                        });
                    }
                    let view = self.argument(frame, position, *id, &without(&ids, k), overwritten)?;
                    (view.clone(), view.at(l.clone()))
                }
                RepeatArgument::Carried { .. } if stays => {
                    let view = self.argument(frame, position, *id, &without(&ids, k), overwritten)?;
                    (view.clone(), view)
                }
                RepeatArgument::Carried { name } => {
                    let from = frame.view(*id)?.clone();
                    let source = &self.buffers[from.buffer];
                    let axes =
                        std::iter::once((Dim::constant(2), false)).chain(source.axes(from.leading.len()));
                    let slots = self.allocate(name, source.dtype, axes.collect());
                    self.copy(&from, &slots.at(Dim::constant(0)), "the first value of a carried one")?;
                    (slots.clone(), slots.at(l.modulo(2)))
                }
            };
            outside.push(whole);
            args.push(inside);
        }

        // Before the repeat: the memory of results.
        let mut asked = Vec::new();
        let mut after = Vec::new();
        for (r, (id, kind)) in repeat.results.iter().enumerate() {
            let (inside, whole) = match (in_place(&repeat.arguments, &summary, r, kind), kind) {
                (Some(k), _) => match (args.get(k), outside.get(k)) {
                    (Some(inside), Some(whole)) => (inside.clone(), whole.clone()),
                    _ => return Err(bug("a repeat without its argument")),
                },
                (None, RepeatResult::Stacked) => {
                    let stack = self.place(frame, *id)?;
                    (stack.at(l.clone()), stack)
                }
                (None, RepeatResult::Carried(k)) => {
                    let slots =
                        outside.get(*k).ok_or_else(|| bug("a repeat without its carried argument"))?;
                    (slots.at((&l + 1).modulo(2)), slots.at(extent.modulo(2)))
                }
            };
            asked.push(inside);
            after.push(whole);
        }

        // The iterations.
        let outer = std::mem::take(&mut self.steps);
        self.repeats.push((self.repeat_count, coordinate.clone(), extent.clone()));
        self.repeat_count += 1;
        for (k, (id, kind)) in repeat.arguments.iter().enumerate() {
            if *kind == RepeatArgument::Shared && summary.overwritten.get(k).copied().unwrap_or(false) {
                let name = frame.tensor(*id)?.0.clone();
                args[k] = self.copy_of(&outside[k], &name, "each iteration updates a copy")?;
            }
        }
        let mut wanted = BTreeMap::new();
        for ((view, place), root) in asked.iter().zip(&summary.results).zip(&summary.roots) {
            if *place == Place::Fresh && !wanted.contains_key(root) {
                wanted.insert(*root, view.clone());
            }
        }
        let views = self.function(function, args, wanted)?;
        for (view, asked) in views.into_iter().zip(asked) {
            self.settle(view, Some(asked))?;
        }
        self.repeats.pop();
        self.used_names.remove(&coordinate);
        let steps = std::mem::replace(&mut self.steps, outer);
        if !steps.is_empty() {
            self.steps.push(Step::Repeat { coordinate, extent, steps });
        }

        for ((id, _), view) in repeat.results.iter().zip(after) {
            let wanted = frame.wanted.get(id).cloned();
            let view = self.settle(view, wanted)?;
            self.define(frame, *id, view)?;
        }
        Ok(())
    }
}

/// The ids but the one at `position`.
pub(super) fn without(ids: &[ValueId], position: usize) -> Vec<ValueId> {
    ids.iter().enumerate().filter(|(k, _)| *k != position).map(|(_, id)| *id).collect()
}
