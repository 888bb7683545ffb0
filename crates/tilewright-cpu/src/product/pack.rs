//! Panels from matrices.

use super::format::{Element, Format};

/// A matrix with any strides: rows of `a`, or columns of `b`, by depth.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// Its elements.
    pub data: &'a [T],
    /// Rows of `a`, or columns of `b`.
    pub lines: usize,
    /// Depth.
    pub depth: usize,
    /// Elements from one line to the next.
    pub line_step: usize,
    /// Elements from one step of depth to the next.
    pub depth_step: usize,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// Lines one behind another, each with its depth one behind another.
    pub fn rows(data: &'a [T], lines: usize, depth: usize) -> Matrix<'a, T> {
        Matrix { data, lines, depth, line_step: depth, depth_step: 1 }
    }

    /// Steps of depth one behind another, each with its lines one behind another.
    pub fn columns(data: &'a [T], lines: usize, depth: usize) -> Matrix<'a, T> {
        Matrix { data, lines, depth, line_step: 1, depth_step: lines }
    }

    /// Elements that `data` must have: none if there is no line or no depth; `None` if that is no number.
    pub fn needs(&self) -> Option<usize> {
        if self.lines == 0 || self.depth == 0 {
            return Some(0);
        }
        let line = (self.lines - 1).checked_mul(self.line_step)?;
        line.checked_add((self.depth - 1).checked_mul(self.depth_step)?)?.checked_add(1)
    }
}

/// Appends the panel of `height` lines from `line` on, of `depth` steps from `from` on, to `out`; lines and steps that the matrix
/// lacks are 0. A panel of `b` if `right`. `data` has what `Matrix::needs` says.
pub fn pack_panel<T: Element>(
    format: Format,
    matrix: &Matrix<'_, T>,
    right: bool,
    height: usize,
    line: usize,
    (from, depth): (usize, usize),
    out: &mut Vec<u32>,
) {
    let (exist, until) =
        (height.min(matrix.lines - line.min(matrix.lines)), (from + depth).min(matrix.depth));
    if !right && format.head() > 0 {
        for m in 0..height {
            let sum: i32 = if m < exist {
                let start = (line + m) * matrix.line_step;
                (from..until).map(|k| matrix.data[start + k * matrix.depth_step].integer()).sum()
            } else {
                0
            };
            out.push((-128 * sum) as u32);
        }
    }
    let group = format.depth();
    let empty = T::unit(format, &[], right);
    let start = out.len();
    out.resize(start + depth.div_ceil(group) * height, empty);
    let units = out[start..].chunks_exact_mut(height);
    if matrix.depth_step == 1 {
        let mut lines: [&[T]; 64] = [&[]; 64];
        for (m, elements) in lines.iter_mut().enumerate().take(exist) {
            let first = (line + m) * matrix.line_step;
            *elements = &matrix.data[first + from.min(until)..first + until];
        }
        for (k, units) in units.enumerate() {
            let (first, last) = (k * group, ((k + 1) * group).min(until.saturating_sub(from)));
            if first >= last {
                continue;
            }
            for (unit, elements) in units.iter_mut().zip(&lines[..exist]) {
                *unit = T::unit(format, &elements[first..last], right);
            }
        }
        return;
    }
    for (k, units) in units.enumerate() {
        for (m, unit) in units.iter_mut().enumerate().take(exist) {
            let mut run = [T::default(); 4];
            let steps = (from + k * group..(from + (k + 1) * group).min(until)).take(4);
            let mut count = 0;
            for (slot, k) in run.iter_mut().zip(steps) {
                *slot = matrix.data[(line + m) * matrix.line_step + k * matrix.depth_step];
                count += 1;
            }
            *unit = T::unit(format, &run[..count], right);
        }
    }
}
