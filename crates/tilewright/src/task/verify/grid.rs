//! Grids: the boundaries of boxes cut each axis of a buffer into segments, so that a cell lies inside a box or outside.

use super::MAX_GRID;
use super::cuboid::Cuboid;

/// The boundaries of boxes along each axis of a buffer.
pub(super) struct Grid {
    cuts: Vec<Vec<i64>>,
}

impl Grid {
    /// The grid of boxes in an array with these extents; none where it has too many cells.
    pub(super) fn new<'a>(extents: &[i64], boxes: impl Iterator<Item = &'a Cuboid>) -> Option<Grid> {
        let mut cuts: Vec<Vec<i64>> = extents.iter().map(|&n| vec![0, n]).collect();
        for elements in boxes {
            for (axis, &(lo, hi)) in cuts.iter_mut().zip(&elements.axes) {
                axis.push(lo);
                axis.push(hi);
            }
        }
        for axis in &mut cuts {
            axis.sort_unstable();
            axis.dedup();
        }
        let grid = Grid { cuts };
        grid.count().map(|_| grid)
    }

    /// The number of cells.
    pub(super) fn count(&self) -> Option<usize> {
        let mut count = 1usize;
        for axis in &self.cuts {
            count = count.checked_mul(axis.len().saturating_sub(1))?;
        }
        (count <= MAX_GRID).then_some(count)
    }

    /// The grid cells of a box.
    pub(super) fn cells(&self, elements: &Cuboid) -> Vec<usize> {
        let mut cells = vec![0usize];
        for (cuts, (lo, hi)) in self.cuts.iter().zip(&elements.axes) {
            let segments = cuts.len().saturating_sub(1);
            let (first, last) = (cuts.partition_point(|cut| cut < lo), cuts.partition_point(|cut| cut < hi));
            cells = cells.iter().flat_map(|cell| (first..last).map(move |i| cell * segments + i)).collect();
        }
        cells
    }

    /// The elements of a grid cell.
    pub(super) fn elements(&self, cell: usize) -> Cuboid {
        let mut rest = cell;
        let mut axes = vec![(0, 0); self.cuts.len()];
        for (axis, cuts) in axes.iter_mut().zip(&self.cuts).rev() {
            let segments = cuts.len().saturating_sub(1).max(1);
            *axis = (cuts[rest % segments], cuts[rest % segments + 1]);
            rest /= segments;
        }
        Cuboid { axes }
    }
}
