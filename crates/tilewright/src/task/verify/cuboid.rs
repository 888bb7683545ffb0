//! Products of index intervals: what a task touches of a buffer.

/// Indices `lo..hi` along each axis of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuboid {
    /// First index and first index that is not meant, per axis.
    pub axes: Vec<(i64, i64)>,
}

impl Cuboid {
    /// Every element of an array with these extents.
    pub fn whole(extents: &[i64]) -> Cuboid {
        Cuboid { axes: extents.iter().map(|&n| (0, n)).collect() }
    }

    /// Whether it holds no element.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|(lo, hi)| lo >= hi)
    }

    /// The part inside an array with these extents.
    pub fn clipped(&self, extents: &[i64]) -> Cuboid {
        Cuboid { axes: self.axes.iter().zip(extents).map(|(&(lo, hi), &n)| (lo.max(0), hi.min(n))).collect() }
    }

    /// Whether the other lies inside.
    pub fn contains(&self, other: &Cuboid) -> bool {
        self.axes.iter().zip(&other.axes).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
    }

    /// Whether an element lies in both.
    pub fn meets(&self, other: &Cuboid) -> bool {
        self.axes.iter().zip(&other.axes).all(|(a, b)| a.0.max(b.0) < a.1.min(b.1))
    }

    /// Whether every element lies in one of `others`.
    pub fn is_covered(&self, others: &[Cuboid]) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some((first, rest)) = others.split_first() else { return false };
        if first.contains(self) {
            return true;
        }
        if !first.meets(self) {
            return self.is_covered(rest);
        }
        self.without(first).iter().all(|part| part.is_covered(rest))
    }

    /// What is left without the other, as disjoint boxes.
    fn without(&self, other: &Cuboid) -> Vec<Cuboid> {
        let mut left = Vec::new();
        let mut core = self.clone();
        for (axis, &(lo, hi)) in other.axes.iter().enumerate() {
            let Some(&(from, to)) = core.axes.get(axis) else { continue };
            for (part_lo, part_hi) in [(from, to.min(lo)), (from.max(hi), to)] {
                if part_lo < part_hi {
                    let mut part = core.clone();
                    part.axes[axis] = (part_lo, part_hi);
                    left.push(part);
                }
            }
            core.axes[axis] = (from.max(lo), to.min(hi));
        }
        left
    }

    /// Makes it the union of itself and the other, if that is a box.
    pub fn absorb(&mut self, other: &Cuboid) -> bool {
        let mut differs = None;
        for (axis, (a, b)) in self.axes.iter().zip(&other.axes).enumerate() {
            if a != b {
                if differs.is_some() {
                    return false;
                }
                differs = Some(axis);
            }
        }
        let Some(axis) = differs else { return true };
        let (a, b) = (self.axes[axis], other.axes[axis]);
        if a.0.max(b.0) > a.1.min(b.1) {
            return false;
        }
        self.axes[axis] = (a.0.min(b.0), a.1.max(b.1));
        true
    }

    /// The first and the last row-major position in an array with these extents, both inclusive.
    pub fn hull(&self, extents: &[i64]) -> (i128, i128) {
        let (mut first, mut last) = (0i128, 0i128);
        for (&(lo, hi), &n) in self.axes.iter().zip(extents) {
            first = first * i128::from(n) + i128::from(lo);
            last = last * i128::from(n) + i128::from(hi) - 1;
        }
        (first, last)
    }

    /// The contiguous runs of row-major positions, as first and last, or none where there are more than `most`.
    pub fn runs(&self, extents: &[i64], most: usize) -> Option<Vec<(i128, i128)>> {
        let mut inner = self.axes.len();
        while inner > 0 {
            let (lo, hi) = self.axes[inner - 1];
            inner -= 1;
            if (lo, hi) != (0, extents[inner]) {
                break;
            }
        }
        let (outer, rest) = self.axes.split_at(inner);
        let count = outer.iter().try_fold(1usize, |n, (lo, hi)| {
            n.checked_mul(usize::try_from(hi - lo).ok()?).filter(|&n| n <= most)
        })?;
        let tail = Cuboid { axes: rest.to_vec() };
        let (first, last) = tail.hull(extents.get(inner..).unwrap_or_default());
        let stride: i128 = extents.iter().skip(inner).map(|&n| i128::from(n)).product();
        let mut runs = Vec::with_capacity(count);
        let mut index: Vec<i64> = outer.iter().map(|(lo, _)| *lo).collect();
        for _ in 0..count {
            let base =
                index.iter().zip(extents).fold(0i128, |at, (&i, &n)| at * i128::from(n) + i128::from(i))
                    * stride;
            runs.push((base + first, base + last));
            for axis in (0..inner).rev() {
                index[axis] += 1;
                if index[axis] < outer[axis].1 {
                    break;
                }
                index[axis] = outer[axis].0;
            }
        }
        Some(runs)
    }
}

impl std::fmt::Display for Cuboid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|(lo, hi)| if *hi == lo + 1 { lo.to_string() } else { format!("{lo}..{hi}") })
            .collect();
        write!(f, "[{}]", axes.join(", "))
    }
}
