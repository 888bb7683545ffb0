//! How the elements of a tensor are stored: the numbers that GGUF gives to element types and packed formats, whose sizes
//! and meaning are the compiler's.

use tilewright::tensor::dtype::DType;
use tilewright::tensor::ops::decode;

/// A storage format: some consecutive elements of the innermost axis take some bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// The number in a file.
    pub id: u32,
    /// The name, as the format's definition writes it.
    pub name: &'static str,
}

/// What the bytes are.
#[derive(Clone, Copy)]
pub enum Storage {
    /// Elements of a type.
    Plain(DType),
    /// Blocks that `decode` turns into numbers.
    Packed(&'static decode::Format),
}

/// Every format that can be read.
pub static FORMATS: [Format; 11] = [
    Format { id: 0, name: "F32" },
    Format { id: 1, name: "F16" },
    Format { id: 30, name: "BF16" },
    Format { id: 2, name: "Q4_0" },
    Format { id: 3, name: "Q4_1" },
    Format { id: 6, name: "Q5_0" },
    Format { id: 7, name: "Q5_1" },
    Format { id: 8, name: "Q8_0" },
    Format { id: 12, name: "Q4_K" },
    Format { id: 13, name: "Q5_K" },
    Format { id: 14, name: "Q6_K" },
];

impl Format {
    /// The format with this number in a file.
    pub fn from_id(id: u32) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.id == id)
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.name == name)
    }

    /// What the bytes are.
    pub fn storage(&self) -> Storage {
        match decode::find(self.name) {
            Some(format) => Storage::Packed(format),
            None => Storage::Plain(DType::from_name(&self.name.to_ascii_lowercase()).unwrap_or(DType::U8)),
        }
    }

    /// Elements and bytes of a block; a plain element is a block. Neither is 0.
    pub fn block(&self) -> (u64, u64) {
        match self.storage() {
            Storage::Plain(dtype) => (1, dtype.bytes() as u64),
            Storage::Packed(format) => {
                (format.elements.unsigned_abs().max(1), format.bytes.unsigned_abs().max(1))
            }
        }
    }

    /// Bytes of a tensor with these extents, innermost first; the reason if there is no such tensor.
    pub fn tensor_bytes(&self, extents: &[u64]) -> Result<u64, String> {
        let (elements, bytes) = self.block();
        let row = extents.first().copied().unwrap_or(1);
        if row % elements != 0 {
            let name = self.name;
            return Err(format!(
                "the innermost extent is {row}; {name} is stored in blocks of {elements} elements"
            ));
        }
        let mut blocks = row / elements;
        for &extent in extents.iter().skip(1) {
            blocks = blocks.checked_mul(extent).ok_or("the number of elements exceeds 64 bits")?;
        }
        Ok(blocks.checked_mul(bytes).ok_or("the number of bytes exceeds 64 bits")?)
    }
}
