//! The cells that an edge means at a task: edges bound to sizes, for whoever runs tasks.

use super::ir::{Edge, EdgeIndex};
use super::plan::{EventPlan, Plan};
use crate::dim::{Code, Dim, Env, EvalError, Symbol};

/// An edge bound to sizes.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The position of the event's first cell among the cells of all events, and its extents.
    base: usize,
    extents: Vec<usize>,
    index: Vec<Index>,
}

#[derive(Clone, Debug)]
enum Index {
    One(Code),
    Range(Code, Code),
    /// The bounds of the label, and the cell, whose last slot is the label.
    Gather(Code, Code, Code),
}

impl Cells {
    /// Binds an edge of a family with these coordinates; `env` gives symbols.
    ///
    /// # Errors
    /// An expression that has no value under `env`.
    pub fn new(edge: &Edge, coordinates: &[Symbol], plan: &Plan, env: &dyn Env) -> Result<Cells, EvalError> {
        let code = |dim: &Dim| Code::dim(dim, coordinates, env);
        let index = |index: &EdgeIndex| {
            Ok(match index {
                EdgeIndex::Affine(cell) | EdgeIndex::Quotient(cell) => Index::One(code(cell)?),
                EdgeIndex::Range { lo, hi } | EdgeIndex::TableRange { lo, hi } => {
                    Index::Range(code(lo)?, code(hi)?)
                }
                EdgeIndex::Gather { label, lo, hi, cell } => {
                    let names: Vec<Symbol> = coordinates.iter().chain([label]).cloned().collect();
                    Index::Gather(code(lo)?, code(hi)?, Code::dim(cell, &names, env)?)
                }
            })
        };
        let index = edge.index.iter().map(index).collect::<Result<_, _>>()?;
        let none = EventPlan { extents: Vec::new(), base: 0, cells: 0 };
        let EventPlan { extents, base, .. } = plan.events.get(edge.event.0 as usize).unwrap_or(&none).clone();
        Ok(Cells { base, extents, index })
    }

    /// Calls `visit` with the position, among the cells of all events, of each cell that the edge means at these
    /// coordinates; once each. Cells outside the event are left out. `tables` gives elements of integer tensors.
    ///
    /// # Errors
    /// An expression that has no value.
    pub fn each(
        &self,
        coordinates: &[i64],
        tables: &dyn Env,
        mut visit: impl FnMut(usize),
    ) -> Result<(), EvalError> {
        self.descend(0, self.base, coordinates, tables, &mut visit)
    }

    fn descend(
        &self,
        axis: usize,
        position: usize,
        coordinates: &[i64],
        tables: &dyn Env,
        visit: &mut dyn FnMut(usize),
    ) -> Result<(), EvalError> {
        let Some(index) = self.index.get(axis) else {
            visit(position);
            return Ok(());
        };
        let extent = self.extents.get(axis).copied().unwrap_or(0);
        let inner: usize = self.extents.iter().skip(axis + 1).product();
        let mut go =
            |cell: usize| self.descend(axis + 1, position + cell * inner, coordinates, tables, visit);
        let inside = |cell: i64| usize::try_from(cell).ok().filter(|&cell| cell < extent);
        match index {
            Index::One(cell) => inside(cell.eval(coordinates, tables)?).map_or(Ok(()), go),
            Index::Range(lo, hi) => {
                let (lo, hi) = (lo.eval(coordinates, tables)?, hi.eval(coordinates, tables)?);
                (lo.max(0)..hi.min(extent as i64)).try_for_each(|cell| go(cell as usize))
            }
            Index::Gather(lo, hi, cell) => {
                let (lo, hi) = (lo.eval(coordinates, tables)?, hi.eval(coordinates, tables)?);
                let mut slots = coordinates.to_vec();
                slots.push(0);
                let mut found = Vec::new();
                for label in lo..hi {
                    slots[coordinates.len()] = label;
                    found.extend(inside(cell.eval(&slots, tables)?));
                }
                found.sort_unstable();
                found.dedup();
                found.into_iter().try_for_each(go)
            }
        }
    }
}
