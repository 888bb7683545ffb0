//! How the elements of a tensor are stored.

/// A storage format: `elements` consecutive elements of the innermost axis take `bytes` bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// The number in a file.
    pub id: u32,
    /// The name, as the format's definition writes it.
    pub name: &'static str,
    /// Elements of a block; 1 for plain element types.
    pub elements: u64,
    /// Bytes of a block.
    pub bytes: u64,
}

/// Every format that can be read.
pub static FORMATS: [Format; 11] = [
    Format { id: 0, name: "F32", elements: 1, bytes: 4 },
    Format { id: 1, name: "F16", elements: 1, bytes: 2 },
    Format { id: 30, name: "BF16", elements: 1, bytes: 2 },
    Format { id: 2, name: "Q4_0", elements: 32, bytes: 18 },
    Format { id: 3, name: "Q4_1", elements: 32, bytes: 20 },
    Format { id: 6, name: "Q5_0", elements: 32, bytes: 22 },
    Format { id: 7, name: "Q5_1", elements: 32, bytes: 24 },
    Format { id: 8, name: "Q8_0", elements: 32, bytes: 34 },
    Format { id: 12, name: "Q4_K", elements: 256, bytes: 144 },
    Format { id: 13, name: "Q5_K", elements: 256, bytes: 176 },
    Format { id: 14, name: "Q6_K", elements: 256, bytes: 210 },
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

    /// Bytes of a tensor with these extents, innermost first; the reason if there is no such tensor.
    pub fn tensor_bytes(&self, extents: &[u64]) -> Result<u64, String> {
        let row = extents.first().copied().unwrap_or(1);
        if row % self.elements != 0 {
            return Err(format!(
                "the innermost extent is {row}; {} is stored in blocks of {} elements",
                self.name, self.elements
            ));
        }
        let mut blocks = row / self.elements;
        for &extent in extents.iter().skip(1) {
            blocks = blocks.checked_mul(extent).ok_or("the number of elements exceeds 64 bits")?;
        }
        Ok(blocks.checked_mul(self.bytes).ok_or("the number of bytes exceeds 64 bits")?)
    }
}
