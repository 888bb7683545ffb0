//! AMX tiles of the interpreter.

use super::eval::Fault;

/// The tile configuration of palette 1, as `ldtilecfg` reads it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileConfig {
    /// 1.
    pub palette: u8,
    /// 0.
    pub start_row: u8,
    /// 0.
    pub reserved: [u8; 14],
    /// Bytes in a row of each tile, at most 64; the last eight are 0.
    pub row_bytes: [u16; 16],
    /// Rows of each tile, at most 16; the last eight are 0.
    pub rows: [u8; 16],
}

impl TileConfig {
    /// Eight tiles of 16 rows of 64 bytes. A `static`, so that no compiler takes its bytes for dead.
    pub const FULL: TileConfig = TileConfig {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    /// Its 64 bytes.
    pub fn to_bytes(self) -> [u8; 64] {
        let mut out = [0; 64];
        out[0] = self.palette;
        out[1] = self.start_row;
        out[2..16].copy_from_slice(&self.reserved);
        for (i, bytes) in self.row_bytes.iter().enumerate() {
            out[16 + 2 * i..18 + 2 * i].copy_from_slice(&bytes.to_le_bytes());
        }
        out[48..64].copy_from_slice(&self.rows);
        out
    }
}

/// Eight tiles and how they are configured.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    config: Option<[(usize, usize); 8]>,
    content: Vec<[[u8; 64]; 16]>,
}

impl Tiles {
    /// `ldtilecfg`.
    pub fn configure(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes[0] != 1 || bytes[1..16].iter().any(|byte| *byte != 0) {
            return Err(Fault::Tiles("a palette other than 1, or reserved bytes that are not 0"));
        }
        let mut config = [(0, 0); 8];
        for (i, slot) in config.iter_mut().enumerate() {
            let row_bytes = usize::from(u16::from_le_bytes([bytes[16 + 2 * i], bytes[17 + 2 * i]]));
            *slot = (usize::from(bytes[48 + i]), row_bytes);
            if slot.0 > 16 || row_bytes > 64 || (slot.0 == 0) != (row_bytes == 0) {
                return Err(Fault::Tiles(
                    "a tile of more than 16 rows or 64 bytes, or with only one of them 0",
                ));
            }
        }
        self.config = Some(config);
        self.content = vec![[[0; 64]; 16]; 8];
        Ok(())
    }

    /// `tilerelease`.
    pub fn release(&mut self) {
        *self = Tiles::default();
    }

    /// Rows and bytes in a row of a tile.
    pub fn shape(&self, tile: u8) -> Result<(usize, usize), Fault> {
        match self.config.and_then(|config| config.get(usize::from(tile)).copied()) {
            Some((0, _)) => Err(Fault::Tiles("a tile of no rows")),
            Some(shape) => Ok(shape),
            None => Err(Fault::Tiles("nothing is configured")),
        }
    }

    /// The rows of a tile.
    pub fn rows(&mut self, tile: u8) -> Result<&mut [[u8; 64]; 16], Fault> {
        self.shape(tile)?;
        Ok(&mut self.content[usize::from(tile)])
    }

    /// `c[m, n] += Σ_k dot(a[m, k], b[k, n])`, where an element of 4 bytes of `a` and one of `b` are multiplied by
    /// `dot` and added to one of `c`.
    pub fn product(&mut self, c: u8, a: u8, b: u8, dot: fn(u32, u32, u32) -> u32) -> Result<(), Fault> {
        let ((m, n), (am, k), (bk, bn)) = (self.shape(c)?, self.shape(a)?, self.shape(b)?);
        if c == a || c == b || a == b || am != m || bn != n || bk * 4 != k {
            return Err(Fault::Tiles("shapes that do not fit, or one tile twice"));
        }
        let (left, right) = (*self.rows(a)?, *self.rows(b)?);
        let out = self.rows(c)?;
        let word = |row: &[u8; 64], i: usize| super::eval::lane(row, i);
        for i in 0..m {
            for (depth, from) in right.iter().enumerate().take(k / 4) {
                for j in 0..n / 4 {
                    let sum = dot(word(&out[i], j), word(&left[i], depth), word(from, j));
                    super::eval::set_lane(&mut out[i], j, sum);
                }
            }
        }
        Ok(())
    }
}
