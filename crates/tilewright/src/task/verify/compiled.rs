//! Families, regions and edges at one assignment of sizes.

use super::Violation;
use super::cuboid::Cuboid;
use super::form::visit_atoms;
use super::instance::{Instance, MAX_CELLS, Moment, Site, Touch, Toucher, Touches, value_error};
use super::sizes::Sizes;
use crate::dim::{Atom, Code, Dim, EvalError, Symbol};
use crate::task::ir::{Access, Buffer, BufferId, Edge, EdgeIndex, Family, Interval, Program};

/// An element of a table whose index is compiled.
pub(super) struct TableRead {
    buffer: BufferId,
    index: Vec<Code>,
}

impl TableRead {
    /// The elements of tables that a dim reads.
    pub(super) fn all(
        buffers: &[Buffer],
        dim: &Dim,
        vars: &[Symbol],
        sizes: &Sizes,
    ) -> Result<Vec<TableRead>, EvalError> {
        let mut found = Vec::new();
        let mut error = None;
        visit_atoms(dim, &mut |atom| {
            let Atom::Element(table, index) = atom else { return };
            let Some(buffer) = buffers.iter().position(|buffer| buffer.name == *table) else { return };
            let index: Result<Vec<Code>, EvalError> =
                index.iter().map(|dim| Code::dim(dim, vars, sizes)).collect();
            match index {
                Ok(index) => found.push(TableRead { buffer: BufferId(buffer as u32), index }),
                Err(failed) => error = Some(failed),
            }
        });
        error.map_or(Ok(found), Err)
    }

    /// The buffer and the element that is read at these slots.
    pub(super) fn element(&self, slots: &[i64], sizes: &Sizes) -> Result<(BufferId, Cuboid), EvalError> {
        let mut axes = Vec::with_capacity(self.index.len());
        for code in &self.index {
            let i = code.eval(slots, sizes)?;
            axes.push((i, i.saturating_add(1)));
        }
        Ok((self.buffer, Cuboid { axes }))
    }

    pub(super) fn touch(
        &self,
        at: &[i64],
        instance: &Instance<'_>,
        out: &mut Vec<Touch>,
    ) -> Result<(), EvalError> {
        let (buffer, elements) = self.element(at, instance.sizes)?;
        out.push(Touch { buffer, elements, write: false, prologue: false, table: true, exact: true });
        Ok(())
    }
}

pub(super) struct CompiledRegion {
    pub(super) buffer: BufferId,
    pub(super) intervals: Vec<(Code, Code)>,
    pub(super) tables: Vec<TableRead>,
}

pub(super) enum CompiledIndex {
    One(Code),
    Range(Code, Code),
    Gather { lo: Code, hi: Code, cell: Code },
}

impl CompiledIndex {
    pub(super) fn cells(&self, at: &[i64], sizes: &Sizes) -> Result<Vec<i64>, EvalError> {
        match self {
            CompiledIndex::One(cell) => Ok(vec![cell.eval(at, sizes)?]),
            CompiledIndex::Range(lo, hi) => {
                let (lo, hi) = (lo.eval(at, sizes)?, hi.eval(at, sizes)?);
                Ok((lo..hi.min(lo.saturating_add(MAX_CELLS))).collect())
            }
            CompiledIndex::Gather { lo, hi, cell } => {
                let (lo, hi) = (lo.eval(at, sizes)?, hi.eval(at, sizes)?);
                let mut slots = at.to_vec();
                slots.push(0);
                let mut cells = Vec::new();
                for value in lo..hi.min(lo.saturating_add(MAX_CELLS)) {
                    slots[at.len()] = value;
                    cells.push(cell.eval(&slots, sizes)?);
                }
                cells.sort_unstable();
                cells.dedup();
                Ok(cells)
            }
        }
    }
}

pub(super) struct CompiledEdge {
    pub(super) event: usize,
    pub(super) index: Vec<CompiledIndex>,
    /// For each index the coordinates that it depends on.
    pub(super) uses: Vec<Vec<usize>>,
    /// Elements read whatever a gather's label is.
    pub(super) plain: Vec<TableRead>,
    /// Elements read for each label of the gather with this index.
    pub(super) gathered: Vec<(usize, TableRead)>,
}

impl CompiledEdge {
    pub(super) fn new(
        buffers: &[Buffer],
        edge: &Edge,
        vars: &[Symbol],
        sizes: &Sizes,
    ) -> Result<CompiledEdge, EvalError> {
        let mut compiled = CompiledEdge {
            event: edge.event.0 as usize,
            index: Vec::new(),
            uses: edge.index.iter().map(|index| used(index, vars)).collect(),
            plain: Vec::new(),
            gathered: Vec::new(),
        };
        for (axis, index) in edge.index.iter().enumerate() {
            let mut code = |dim: &Dim| -> Result<Code, EvalError> {
                compiled.plain.extend(TableRead::all(buffers, dim, vars, sizes)?);
                Code::dim(dim, vars, sizes)
            };
            let index = match index {
                EdgeIndex::Affine(cell) | EdgeIndex::Quotient(cell) => CompiledIndex::One(code(cell)?),
                EdgeIndex::Range { lo, hi } | EdgeIndex::TableRange { lo, hi } => {
                    CompiledIndex::Range(code(lo)?, code(hi)?)
                }
                EdgeIndex::Gather { label, lo, hi, cell } => {
                    let (lo, hi) = (code(lo)?, code(hi)?);
                    let inner: Vec<Symbol> = vars.iter().chain([label]).cloned().collect();
                    let reads = TableRead::all(buffers, cell, &inner, sizes)?;
                    compiled.gathered.extend(reads.into_iter().map(|read| (axis, read)));
                    CompiledIndex::Gather { lo, hi, cell: Code::dim(cell, &inner, sizes)? }
                }
            };
            compiled.index.push(index);
        }
        Ok(compiled)
    }

    /// Appends the tables that the edge reads, after `waits` waits.
    pub(super) fn tables(
        &self,
        at: &[i64],
        instance: &Instance<'_>,
        waits: usize,
        out: &mut Vec<Moment>,
    ) -> Result<(), EvalError> {
        let mut touches = Vec::new();
        self.plain.iter().try_for_each(|table| table.touch(at, instance, &mut touches))?;
        for (axis, table) in &self.gathered {
            let Some(CompiledIndex::Gather { lo, hi, .. }) = self.index.get(*axis) else { continue };
            let (lo, hi) = (lo.eval(at, instance.sizes)?, hi.eval(at, instance.sizes)?);
            for value in lo..hi.min(lo.saturating_add(MAX_CELLS)) {
                let slots: Vec<i64> = at.iter().copied().chain([value]).collect();
                table.touch(&slots, instance, &mut touches)?;
            }
        }
        out.extend(touches.into_iter().map(|touch| Moment { touch, waits }));
        Ok(())
    }
}

/// The positions of the names that an index mentions.
fn used(index: &EdgeIndex, names: &[Symbol]) -> Vec<usize> {
    let dims = match index {
        EdgeIndex::Affine(cell) | EdgeIndex::Quotient(cell) => vec![cell],
        EdgeIndex::Range { lo, hi } | EdgeIndex::TableRange { lo, hi } => vec![lo, hi],
        EdgeIndex::Gather { lo, hi, cell, .. } => vec![lo, hi, cell],
    };
    (0..names.len()).filter(|&at| dims.iter().any(|dim| dim.mentions(&names[at]))).collect()
}

/// A family at one assignment of sizes.
pub(super) struct Compiled<'a> {
    pub(super) name: Symbol,
    /// The extents of all coordinates; a negative one counts as 0.
    pub(super) extents: Vec<i64>,
    pub(super) waits: Vec<CompiledEdge>,
    pub(super) notifies: Vec<CompiledEdge>,
    pub(super) reads: Vec<CompiledRegion>,
    pub(super) writes: Vec<CompiledRegion>,
    pub(super) toucher: Option<Toucher<'a>>,
}

impl<'a> Compiled<'a> {
    pub(super) fn new<B: Touches>(
        program: &'a Program<B>,
        family: &'a Family<B>,
        sizes: &'a Sizes,
        extents: &'a [Vec<i64>],
    ) -> Result<Compiled<'a>, Violation> {
        let place = format!("tasks {}", family.name);
        let vars: Vec<Symbol> = family.coordinates.iter().map(|(name, _)| name.clone()).collect();
        let failed = |error| value_error(&place, sizes, error);
        let edges = |edges: &[Edge]| -> Result<Vec<CompiledEdge>, EvalError> {
            edges.iter().map(|edge| CompiledEdge::new(&program.buffers, edge, &vars, sizes)).collect()
        };
        let regions = |accesses: &[Access]| -> Result<Vec<CompiledRegion>, EvalError> {
            let region = |access: &Access| {
                let mut tables = Vec::new();
                let mut intervals = Vec::new();
                for Interval { lo, hi } in &access.region {
                    tables.extend(TableRead::all(&program.buffers, lo, &vars, sizes)?);
                    tables.extend(TableRead::all(&program.buffers, hi, &vars, sizes)?);
                    intervals.push((Code::dim(lo, &vars, sizes)?, Code::dim(hi, &vars, sizes)?));
                }
                Ok(CompiledRegion { buffer: access.buffer, intervals, tables })
            };
            accesses.iter().map(region).collect()
        };
        let counts = family.coordinates.iter().map(|(_, extent)| Ok(extent.eval(sizes)?.max(0)));
        let site = Site { buffers: &program.buffers, extents, coordinates: &family.coordinates, sizes };
        let toucher = family.body.toucher(&site)?;
        Ok(Compiled {
            name: family.name.clone(),
            extents: counts.collect::<Result<_, _>>().map_err(failed)?,
            waits: edges(&family.waits).map_err(failed)?,
            notifies: edges(&family.notifies).map_err(failed)?,
            reads: regions(&family.reads).map_err(failed)?,
            writes: regions(&family.writes).map_err(failed)?,
            toucher,
        })
    }

    /// The declared elements of a task, inside their buffers. Where what the body touches is `listed`, a region that
    /// needs an element which a table does not have is empty: it covers nothing that the body touches.
    pub(super) fn regions(
        &self,
        regions: &[CompiledRegion],
        at: &[i64],
        instance: &Instance<'_>,
        listed: bool,
    ) -> Result<Vec<(BufferId, Cuboid)>, EvalError> {
        let mut found = Vec::with_capacity(regions.len());
        for region in regions {
            let interval =
                |(lo, hi): &(Code, Code)| Ok((lo.eval(at, instance.sizes)?, hi.eval(at, instance.sizes)?));
            let axes: Result<Vec<(i64, i64)>, EvalError> = region.intervals.iter().map(interval).collect();
            let axes = match axes {
                Err(EvalError::NoElement { .. }) if listed => vec![(0, 0); region.intervals.len()],
                axes => axes?,
            };
            let region_of = Cuboid { axes }.clipped(&instance.extents[region.buffer.0 as usize]);
            found.push((region.buffer, region_of));
        }
        Ok(found)
    }
}
