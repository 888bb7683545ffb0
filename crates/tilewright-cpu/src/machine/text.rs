//! The text of machine programs, and the listing of emitted code.

use super::emit::Emitted;
use super::ir::*;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use std::fmt::{self, Write};

struct Named<'a>(&'a Program, ValueId);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.names.iter().find(|(value, _)| *value == self.1) {
            Some((value, name)) => write!(f, "{name}.{}", value.0),
            None => write!(f, "v{}", self.1.0),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "machine {} at {} {{", self.name, self.level)?;
        for block in &self.blocks {
            writeln!(f, "  {}({}):", block.name, self.list(&block.params))?;
            for inst in &block.insts {
                writeln!(f, "    {}", self.inst(inst))?;
            }
            writeln!(f, "    {}", self.end(&block.end))?;
        }
        f.write_str("}\n")
    }
}

impl Program {
    fn list(&self, values: &[ValueId]) -> String {
        let names: Vec<String> = values.iter().map(|value| Named(self, *value).to_string()).collect();
        names.join(", ")
    }

    fn mem(&self, mem: &Mem) -> String {
        let mut out = match mem.base {
            Base::Value(value) => Named(self, value).to_string(),
            Base::Constant(id) => format!("constant{}", id.0),
        };
        if let Some((index, scale)) = mem.index {
            let _ = write!(out, " + {} * {scale}", Named(self, index));
        }
        if mem.offset != 0 {
            let _ = write!(out, " + {}", mem.offset);
        }
        out
    }

    fn inst(&self, inst: &Inst) -> String {
        let mut out = String::new();
        if !inst.results.is_empty() {
            let _ = write!(out, "{} = ", self.list(&inst.results));
        }
        let _ = write!(out, "{}", inst.row.name);
        if matches!(inst.row.codes, super::row::Codes::Vector(..)) {
            let _ = write!(out, ".{}", inst.width.bytes() * 8);
        }
        if let Some(masking) = inst.masking {
            let _ = write!(out, " if {}", Named(self, masking.mask));
            if let Some(value) = masking.merge {
                let _ = write!(out, " else {}", Named(self, value));
            }
        }
        for (i, arg) in inst.args.iter().enumerate() {
            out.push_str(if i == 0 { " " } else { ", " });
            let _ = match arg {
                Arg::Value(value) => write!(out, "{}", Named(self, *value)),
                Arg::Mem(mem) => write!(out, "[{}]", self.mem(mem)),
                Arg::Broadcast(mem) => write!(out, "each [{}]", self.mem(mem)),
                Arg::Splat(bits) => write!(out, "each {bits:#010x}"),
                Arg::Imm(value) => write!(out, "{value}"),
                Arg::Tile(n) => write!(out, "tmm{n}"),
            };
        }
        if let Some((cond, status)) = inst.exit {
            let _ = write!(out, ", exit {status} if {cond:?}");
        }
        out
    }

    fn end(&self, end: &Terminator) -> String {
        let target =
            |target: &Target| format!("{}({})", self.block(target.block).name, self.list(&target.args));
        match end {
            Terminator::Jump(to) => format!("jump {}", target(to)),
            Terminator::Return(value) => format!("return {}", Named(self, *value)),
            Terminator::Branch { cond, left, right, then, otherwise } => {
                let right = match right {
                    Right::Value(value) => Named(self, *value).to_string(),
                    Right::Imm(value) => value.to_string(),
                };
                let left = Named(self, *left);
                format!("if {cond:?} {left}, {right} then {} else {}", target(then), target(otherwise))
            }
        }
    }
}

impl Emitted {
    /// The code, disassembled, with the names of blocks.
    pub fn listing(&self) -> String {
        let mut out = format!("{}:\n", self.name);
        let code = &self.bytes[self.entry..self.end];
        let mut decoder = Decoder::with_ip(64, code, self.entry as u64, DecoderOptions::NONE);
        let mut formatter = IntelFormatter::new();
        let mut labels = self.labels.iter().peekable();
        while decoder.can_decode() {
            let inst = decoder.decode();
            while let Some((_, name)) = labels.next_if(|(at, _)| *at as u64 <= inst.ip()) {
                let _ = writeln!(out, "{name}:");
            }
            let _ = write!(out, "  {:5x}  ", inst.ip());
            formatter.format(&inst, &mut out);
            out.push('\n');
        }
        out
    }
}
