//! `decode w as q8_0`: the numbers in a packed format. The last axis of the operand holds bytes; the last axis of the
//! result holds elements. A format is a row of [`TABLE`] and one file, which defines an element from the bytes of its
//! block by elementwise functions, so that decoding fuses as anything else. The formats are those of GGUF.

mod block;
mod legacy;
mod super_block;

use super::site::{index_of, pointwise, single};
use super::{AttributeKind, Meaning, Problem, Site, Special};
use crate::dim::Dim;
use crate::tensor::dtype::DType;
use crate::tensor::ir::{Axis, TensorType};
use crate::tensor::nest::Expr;
use block::Block;

/// A packed format.
pub struct Format {
    /// The text name.
    pub name: &'static str,
    /// The number of elements in a block.
    pub elements: i64,
    /// The number of bytes of a block.
    pub bytes: i64,
    /// An element from the bytes of its block.
    element: fn(&mut Block) -> Result<Expr, Problem>,
    /// One line for the documentation.
    pub doc: &'static str,
}

/// Every format, once.
pub static TABLE: &[Format] = &[
    Format {
        name: "q4_0",
        elements: 32,
        bytes: 18,
        element: legacy::q4_0,
        doc: "d·(q − 8), q of 4 bits, d f16",
    },
    Format {
        name: "q4_1",
        elements: 32,
        bytes: 20,
        element: legacy::q4_1,
        doc: "d·q + m, q of 4 bits, d and m f16",
    },
    Format {
        name: "q5_0",
        elements: 32,
        bytes: 22,
        element: legacy::q5_0,
        doc: "d·(q − 16), q of 5 bits, d f16",
    },
    Format {
        name: "q5_1",
        elements: 32,
        bytes: 24,
        element: legacy::q5_1,
        doc: "d·q + m, q of 5 bits, d and m f16",
    },
    Format {
        name: "q8_0",
        elements: 32,
        bytes: 34,
        element: legacy::q8_0,
        doc: "d·q, q a signed byte, d f16",
    },
    Format {
        name: "q4_k",
        elements: 256,
        bytes: 144,
        element: super_block::q4_k,
        doc: "d·s·q − m·t, q of 4 bits, s and t of 6 bits for each 32 elements, d and m f16",
    },
    Format {
        name: "q5_k",
        elements: 256,
        bytes: 176,
        element: super_block::q5_k,
        doc: "d·s·q − m·t, q of 5 bits, s and t of 6 bits for each 32 elements, d and m f16",
    },
    Format {
        name: "q6_k",
        elements: 256,
        bytes: 210,
        element: super_block::q6_k,
        doc: "d·s·(q − 32), q of 6 bits, s a signed byte for each 16 elements, d f16",
    },
];

/// The format with this name, in any case.
pub fn find(name: &str) -> Option<&'static Format> {
    TABLE.iter().find(|format| format.name.eq_ignore_ascii_case(name))
}

/// The operator.
pub static DECODE: Special = Special {
    name: "decode",
    operands: (1, 1),
    keywords: &[("as", AttributeKind::Word)],
    infer,
    meaning,
    opaque: None,
    splits: None,
    doc: "decode w as q8_0: the f32 numbers in a packed format of bytes, along the last axis",
};

fn format(site: &Site) -> Result<&'static Format, Problem> {
    let name = site.word(0)?;
    find(name.as_str()).ok_or_else(|| {
        let names: Vec<&str> = TABLE.iter().map(|format| format.name).collect();
        format!("there is no format `{name}`; there are {}", names.join(", "))
    })
}

fn infer(site: &Site, stated: Option<&[Vec<Axis>]>) -> Result<Vec<TensorType>, Problem> {
    let (ty, format) = (site.tensor(0)?, format(site)?);
    if ty.dtype != DType::U8 {
        return Err(format!("packed numbers are u8, and this is {}", ty.dtype));
    }
    let mut axes = ty.axes.clone();
    let Some(last) = axes.last_mut() else { return Err("a scalar holds no block".into()) };
    site.independent(ty, ty.axes.len() - 1)?;
    if !site.facts.divides(format.bytes, &last.extent).is_yes() {
        return Err(format!(
            "`{}` is not known to be a multiple of the {} bytes of a {} block; write it as {}*n",
            last.extent, format.bytes, format.name, format.bytes
        ));
    }
    last.extent = last.extent.floor_div(format.bytes) * format.elements;
    site.settle(vec![TensorType { dtype: DType::F32, axes }], stated)
}

fn meaning(site: &Site, results: &[TensorType]) -> Result<Meaning, Problem> {
    let (format, result) = (format(site)?, single(results)?);
    let mut index = index_of(result);
    let at = index.pop().unwrap_or_else(|| Dim::constant(0));
    let mut block = Block::new(index, &at, format);
    let body = (format.element)(&mut block)?;
    Ok(pointwise(result, block.reads, body))
}
