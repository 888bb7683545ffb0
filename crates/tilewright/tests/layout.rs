//! Layouts: the digits against brute force.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tilewright::kernel::layout::{Coordinate, Digit, Layout, Location, parse_layout};
use tilewright::text::Parser;

/// All locations of a layout.
fn locations(layout: &Layout) -> Vec<Location> {
    let mut all = vec![Location::new()];
    for coordinate in Coordinate::ALL {
        let size = layout.size(coordinate);
        all = (all.into_iter())
            .flat_map(|location| {
                (0..size).map(move |value| {
                    let mut location = location.clone();
                    if size > 1 {
                        location.insert(coordinate, value);
                    }
                    location
                })
            })
            .collect();
    }
    all
}

/// A location without coordinates that are 0.
fn trimmed(location: &Location) -> Location {
    location.iter().filter(|(_, value)| **value != 0).map(|(k, v)| (*k, *v)).collect()
}

fn indices(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for size in sizes {
        all = all
            .into_iter()
            .flat_map(|index| (0..*size).map(move |i| [index.clone(), vec![i]].concat()))
            .collect();
    }
    all
}

/// Every element has exactly one location, and the two maps are inverse.
fn assert_exact(layout: &Layout, sizes: &[i64]) {
    assert!(layout.fits(sizes), "{layout}");
    assert!(layout.is_total(sizes) && layout.is_injective(), "{layout}");
    let mut seen = BTreeSet::new();
    for location in locations(layout) {
        let index = layout.index_of(&location, sizes.len()).expect("an index");
        assert!(index.iter().zip(sizes).all(|(i, size)| i < size), "{layout} {index:?}");
        assert!(seen.insert(index.clone()), "{layout} {index:?} twice");
        assert_eq!(
            layout.location_of(&index).map(|l| trimmed(&l)),
            Some(trimmed(&location)),
            "{layout} {index:?}"
        );
    }
    assert_eq!(seen.len(), indices(sizes).len());
}

fn at(pairs: &[(Coordinate, i64)]) -> Location {
    pairs.iter().copied().collect()
}

#[test]
fn constructors() {
    assert_exact(&Layout::row_major(&[3, 1, 5]), &[3, 1, 5]);
    assert_exact(&Layout::row_major(&[]), &[]);
    assert_exact(&Layout::registers(4, 32, 16), &[4, 32]);
    assert_exact(&Layout::vnni(6, 8, 2), &[6, 8]);
    assert_exact(&Layout::vnni(6, 8, 4), &[6, 8]);
    assert_exact(&Layout::tile_register(16, 32), &[16, 32]);
    assert_exact(&Layout::tile_register_vnni(16, 32, 2), &[16, 32]);
    assert_exact(&Layout::mma_m16n8_sum(), &[16, 8]);
}

#[test]
fn constructors_put_elements_where_they_say() {
    use Coordinate::{Lane, Offset, Register, Thread};
    let index = |layout: &Layout, location: &[(Coordinate, i64)]| layout.index_of(&at(location), 2);
    assert_eq!(index(&Layout::row_major(&[3, 5]), &[(Offset, 7)]), Some(vec![1, 2]));
    assert_eq!(index(&Layout::row_major(&[3, 5]), &[(Offset, 15)]), None);
    assert_eq!(index(&Layout::registers(4, 32, 16), &[(Register, 3), (Lane, 2)]), Some(vec![1, 18]));
    // Pairs along k: offset 2·n + k mod 2 within a row of pairs.
    assert_eq!(index(&Layout::vnni(6, 8, 2), &[(Offset, 2 * 5 + 1)]), Some(vec![5, 1]));
    assert_eq!(index(&Layout::vnni(6, 8, 2), &[(Offset, 12)]), Some(vec![0, 2]));
    assert_eq!(index(&Layout::tile_register_vnni(16, 32, 2), &[(Register, 3), (Lane, 5)]), Some(vec![2, 7]));
    // Thread 4·g + t, registers 0..4: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
    let sum = Layout::mma_m16n8_sum();
    let (g, t) = (5, 3);
    for (register, want) in
        [(0, [g, 2 * t]), (1, [g, 2 * t + 1]), (2, [g + 8, 2 * t]), (3, [g + 8, 2 * t + 1])]
    {
        assert_eq!(index(&sum, &[(Thread, 4 * g + t), (Register, register)]), Some(want.to_vec()));
    }
    assert_eq!((sum.size(Thread), sum.size(Register), sum.size(Lane)), (32, 4, 1));
}

#[test]
fn layouts_that_do_not_fit() {
    let digit = |size, axis, stride| Digit { coordinate: Coordinate::Offset, size, axis, stride };
    let of = |digits: &[Digit]| Layout { digits: digits.to_vec() };
    // Too short; a hole; twice; along an axis that there is not; of no value.
    assert!(!Layout::row_major(&[4]).fits(&[5]));
    assert!(!of(&[digit(4, 0, 2)]).is_total(&[7]));
    assert!(of(&[digit(4, 0, 2)]).is_injective());
    assert!(!of(&[digit(4, 0, 1), digit(2, 0, 1)]).is_injective());
    assert!(!of(&[digit(4, 0, 1), digit(2, 0, 2)]).fits(&[6]));
    assert!(!of(&[digit(4, 1, 1)]).fits(&[4]));
    assert!(!of(&[digit(0, 0, 1)]).fits(&[0]));
    assert!(!of(&[digit(i64::MAX, 0, i64::MAX), digit(i64::MAX, 0, i64::MAX)]).fits(&[4]));
    assert_eq!(Layout::row_major(&[4]).location_of(&[4]), None);
    assert_eq!(Layout::row_major(&[4]).location_of(&[-1]), None);
    assert_eq!(Layout::row_major(&[4]).location_of(&[]), None);
}

/// Digits that write the indices of each axis in mixed radix, dealt to coordinates at random.
fn exact() -> impl Strategy<Value = (Layout, Vec<i64>)> {
    let axes = prop::collection::vec(prop::collection::vec(1i64..4, 0..3), 0..4);
    (axes, any::<u64>()).prop_map(|(axes, seed)| {
        let mut digits = Vec::new();
        let mut sizes = Vec::new();
        let mut state = seed | 1;
        let mut next = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % n
        };
        for (axis, radices) in axes.iter().enumerate() {
            let mut stride = 1;
            for size in radices {
                let coordinate = Coordinate::ALL[next(4) as usize];
                digits.push(Digit { coordinate, size: *size, axis, stride });
                stride *= size;
            }
            sizes.push(stride);
        }
        for k in (1..digits.len()).rev() {
            digits.swap(k, next(k as u64 + 1) as usize);
        }
        (Layout::new(digits), sizes)
    })
}

/// Any digits at all.
fn any_digits() -> impl Strategy<Value = Layout> {
    let digit = (0usize..4, 1i64..4, 0usize..3, 1i64..7).prop_map(|(c, size, axis, stride)| Digit {
        coordinate: Coordinate::ALL[c],
        size,
        axis,
        stride,
    });
    prop::collection::vec(digit, 0..4).prop_map(Layout::new)
}

fn reads_back(layout: &Layout) {
    let text = layout.to_string();
    let mut parser = Parser::new("layout", &text).expect("lexes");
    let read = parse_layout(&mut parser).unwrap_or_else(|error| panic!("{error}"));
    assert!(parser.is_end());
    assert_eq!(read, *layout, "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mixed_radix_is_exact((layout, sizes) in exact()) {
        assert_exact(&layout, &sizes);
        reads_back(&layout);
    }

    #[test]
    fn checks_agree_with_brute_force(layout in any_digits(), sizes in prop::collection::vec(1i64..5, 3)) {
        let mut count: BTreeMap<Vec<i64>, usize> = BTreeMap::new();
        for location in locations(&layout) {
            if let Some(index) = layout.index_of(&location, 3) {
                *count.entry(index).or_default() += 1;
            }
        }
        let covered = indices(&sizes).iter().all(|index| count.contains_key(index));
        let once = count.values().all(|times| *times == 1);
        let inside = count.keys().all(|index| index.iter().zip(&sizes).all(|(i, size)| i < size));
        // The checks are exact where they say yes, and `fits` wherever the digits are in mixed radix.
        prop_assert!(!layout.is_total(&sizes) || covered, "{} covers {sizes:?}", layout);
        prop_assert!(!layout.is_injective() || once, "{} once", layout);
        prop_assert_eq!(layout.fits(&sizes), covered && once && inside, "{} fits {:?}", layout, sizes);
        for (index, _) in count {
            let location = layout.location_of(&index);
            if let Some(location) = location {
                prop_assert_eq!(layout.index_of(&location, 3), Some(index));
            }
        }
        reads_back(&layout);
    }

    #[test]
    fn composition_is_blocks_of_blocks((inner, sizes) in exact(), (outer, counts) in exact()) {
        let rank = sizes.len().max(counts.len());
        let pad = |sizes: &[i64]| (0..rank).map(|axis| sizes.get(axis).copied().unwrap_or(1)).collect::<Vec<_>>();
        let (sizes, counts) = (pad(&sizes), pad(&counts));
        let whole = inner.compose(&outer, &sizes);
        let total: Vec<i64> = sizes.iter().zip(&counts).map(|(size, count)| size * count).collect();
        prop_assume!(total.iter().product::<i64>() <= 2000);
        assert_exact(&whole, &total);
        // Within each coordinate the location in the block is the faster part.
        for location in locations(&whole) {
            let (mut near, mut far) = (Location::new(), Location::new());
            for (coordinate, value) in &location {
                near.insert(*coordinate, value % inner.size(*coordinate));
                far.insert(*coordinate, value / inner.size(*coordinate));
            }
            let (i, j) = (inner.index_of(&near, rank), outer.index_of(&far, rank));
            let want = i.zip(j).map(|(i, j)| (0..rank).map(|axis| j[axis] * sizes[axis] + i[axis]).collect::<Vec<_>>());
            prop_assert_eq!(whole.index_of(&location, rank), want);
        }
    }
}
