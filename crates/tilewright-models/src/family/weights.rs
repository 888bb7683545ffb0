//! Weights: tensors of a file as parameters of the program, and back to numbers there.
//!
//! The tensors of one name in all layers are a stack. Where layers are stored in different formats, each format is a
//! stack of its own; the program decodes each, puts them one behind the other and back in the order of layers.

use tilewright::HostTensor;
use tilewright::dim::Dim;
use tilewright::tensor::build::FunctionBuilder;
use tilewright::tensor::infer::Problem;
use tilewright::tensor::{Attribute, Axis, DType, Operand, ParamKind, Scalar, TensorType, ValueId};

use super::Error;
use super::program::{axes, labels};
use crate::gguf::{Format, Gguf, Storage, Tensor};

/// A tensor of a layer.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The name in the file, without `blk.N.` and the dot behind it: `attn_q.weight`.
    pub tensor: &'static str,
    /// Names and extents of its axes, outermost first.
    pub axes: &'static [(&'static str, &'static str)],
    /// Whether a file may lack it, in all layers.
    pub optional: bool,
}

impl Layer {
    /// A tensor that every file has.
    pub const fn new(tensor: &'static str, axes: &'static [(&'static str, &'static str)]) -> Layer {
        Layer { tensor, axes, optional: false }
    }

    /// A tensor that a file may lack.
    pub const fn optional(tensor: &'static str, axes: &'static [(&'static str, &'static str)]) -> Layer {
        Layer { tensor, axes, optional: true }
    }

    /// The name of the parameter in the program: `attn_q`, `attn_q_bias`.
    pub fn name(&self) -> String {
        match self.tensor.strip_suffix(".weight") {
            Some(name) => name.to_string(),
            None => self.tensor.replace('.', "_"),
        }
    }
}

/// A parameter of kind `weight`, and the tensors that it is made of, one behind the other.
pub struct Weight {
    /// The name of the parameter.
    pub name: String,
    format: &'static Format,
    tensors: Vec<String>,
    shape: Vec<usize>,
}

/// A weight of the program in one format or several.
pub struct Parts {
    name: String,
    axes: Vec<Axis>,
    /// For each format its layers, in order; one part without layers for a tensor outside the layers.
    parts: Vec<(Weight, Vec<usize>)>,
}

/// The tensor with this name, if its shape is the one expected.
fn fitting<'a>(gguf: &'a Gguf, name: &str, shape: &[i64]) -> Result<Option<Tensor<'a>>, Error> {
    let Some(tensor) = gguf.tensor(name) else { return Ok(None) };
    let found: Vec<i64> = tensor.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
    if found != shape {
        return Err(gguf.tensor_error(name, format!("shape {found:?}, and {shape:?} is needed")).into());
    }
    Ok(Some(tensor))
}

impl Parts {
    /// A tensor outside the layers; none if the file lacks it.
    pub fn single(
        gguf: &Gguf,
        name: &str,
        tensor: &str,
        own: Vec<Axis>,
        shape: &[i64],
    ) -> Result<Option<Parts>, Error> {
        let Some(found) = fitting(gguf, tensor, shape)? else { return Ok(None) };
        let weight = Weight::new(name, found.format, vec![tensor.to_string()], shape, None);
        Ok(Some(Parts { name: name.to_string(), axes: own, parts: vec![(weight, Vec::new())] }))
    }

    /// The stack of a tensor of `layers` layers; none if it is optional and the file lacks it.
    pub fn stack(
        gguf: &Gguf,
        layer: &Layer,
        layers: i64,
        own: Vec<Axis>,
        shape: &[i64],
    ) -> Result<Option<Parts>, Error> {
        let mut found: Vec<(&'static Format, Vec<usize>)> = Vec::new();
        let file_name = |l: usize| format!("blk.{l}.{}", layer.tensor);
        for l in 0..layers as usize {
            let name = file_name(l);
            let Some(tensor) = fitting(gguf, &name, shape)? else {
                if layer.optional && found.is_empty() && l == 0 {
                    return Ok(None);
                }
                return Err(gguf.tensor_error(&name, "the file lacks it").into());
            };
            match found.iter_mut().find(|(format, _)| *format == tensor.format) {
                Some((_, members)) => members.push(l),
                None => found.push((tensor.format, vec![l])),
            }
        }
        let several = found.len() > 1;
        let part = |(format, members): (&'static Format, Vec<usize>)| {
            let name = if several {
                format!("{}_{}", layer.name(), format.name.to_ascii_lowercase())
            } else {
                layer.name()
            };
            let tensors = members.iter().map(|&l| file_name(l)).collect();
            (Weight::new(&name, format, tensors, shape, Some(members.len())), members)
        };
        let axes = axes(&[("l", "L")]).into_iter().chain(own).collect();
        Ok(Some(Parts { name: layer.name(), axes, parts: found.into_iter().map(part).collect() }))
    }

    /// Adds the parameters, of the stored types.
    pub fn declare(&self, f: &mut FunctionBuilder) -> Result<Vec<ValueId>, Problem> {
        let param = |(weight, _): &(Weight, Vec<usize>)| {
            let mut own = self.axes.clone();
            if let (true, Some(axis), Some(&layers)) =
                (self.parts.len() > 1, own.first_mut(), weight.shape.first())
            {
                axis.extent = Dim::constant(layers as i64);
            }
            let dtype = match weight.format.storage() {
                Storage::Plain(dtype) => dtype,
                Storage::Packed(_) => {
                    if let (Some(axis), Some(&bytes)) = (own.last_mut(), weight.shape.last()) {
                        axis.extent = Dim::constant(bytes as i64);
                    }
                    DType::U8
                }
            };
            f.param(&weight.name, TensorType { dtype, axes: own }, ParamKind::Weight)
        };
        self.parts.iter().map(param).collect()
    }

    /// The numbers as `f32`, from the parameters that [`Parts::declare`] gave.
    pub fn decode(&self, f: &mut FunctionBuilder, params: &[ValueId]) -> Result<ValueId, Problem> {
        let name = format!("{}_f32", self.name);
        let mut decoded = Vec::new();
        for ((weight, _), &param) in self.parts.iter().zip(params) {
            decoded.push(decode(f, &name, param, weight.format)?);
        }
        let (Some(&first), [_, others @ ..]) = (decoded.first(), decoded.as_slice()) else {
            return Err(Problem::new(
                tilewright::tensor::infer::Reason::Count,
                "a weight without parts".to_string(),
            ));
        };
        if others.is_empty() {
            return Ok(first);
        }
        let mut all = first;
        for &other in others {
            let over = vec![Attribute::Labels(labels(&["l"]))];
            all = f.special(&name, "concat", [all.into(), other.into()], over, None)?;
        }
        // Layer `l` stands behind all layers of the formats before its own.
        let order: Vec<usize> = self.parts.iter().flat_map(|(_, members)| members.iter().copied()).collect();
        let place = |l: usize| order.iter().position(|&member| member == l).unwrap_or(0) as i64;
        let places = (0..order.len()).map(|l| Scalar::Int(place(l))).collect();
        let place = f.special(
            "place",
            "const",
            [],
            vec![Attribute::Scalars(places), Attribute::DType(DType::I32)],
            Some(axes(&[("l", "L")])),
        )?;
        let mut under: Vec<String> = self.axes.iter().map(|axis| axis.name.to_string()).collect();
        if let Some(first) = under.first_mut() {
            *first = "stored".to_string();
        }
        let table = Operand::Value { value: all, labels: under.iter().map(|l| l.as_str().into()).collect() };
        let over = vec![Attribute::Labels(labels(&["stored"]))];
        f.special(&name, "gather", [table, place.into()], over, None)
    }

    /// The name of the parameter of a layer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The axes in elements, that of layers first where there are layers.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The format, if there is one only.
    pub fn format(&self) -> Option<&'static Format> {
        match self.parts.as_slice() {
            [(weight, _)] => Some(weight.format),
            _ => None,
        }
    }

    /// The weights of the parts.
    pub fn into_weights(self) -> impl Iterator<Item = Weight> {
        self.parts.into_iter().map(|(weight, _)| weight)
    }
}

/// A value of a stored type as `f32`.
pub fn decode(
    f: &mut FunctionBuilder,
    name: &str,
    value: ValueId,
    format: &Format,
) -> Result<ValueId, Problem> {
    match format.storage() {
        Storage::Plain(DType::F32) => Ok(value),
        Storage::Plain(_) => f.cast(name, value, DType::F32),
        Storage::Packed(packed) => {
            f.special(name, "decode", [value.into()], vec![Attribute::Word(packed.name.into())], None)
        }
    }
}

impl Weight {
    /// `shape` is that of one tensor in elements; `layers` the number of tensors in a stack.
    fn new(
        name: &str,
        format: &'static Format,
        tensors: Vec<String>,
        shape: &[i64],
        layers: Option<usize>,
    ) -> Weight {
        let mut shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        if let (Storage::Packed(packed), Some(last)) = (format.storage(), shape.last_mut()) {
            *last = *last / packed.elements.unsigned_abs() as usize * packed.bytes.unsigned_abs() as usize;
        }
        shape.splice(0..0, layers);
        Weight { name: name.to_string(), format, tensors, shape }
    }

    /// The bytes of the file as a tensor.
    pub fn load(&self, gguf: &Gguf) -> Result<HostTensor, Error> {
        let mut bytes = Vec::new();
        for name in &self.tensors {
            let tensor = gguf.tensor(name).ok_or_else(|| gguf.tensor_error(name, "the file lacks it"))?;
            bytes.extend_from_slice(tensor.bytes);
        }
        let dtype = match self.format.storage() {
            Storage::Plain(dtype) => dtype,
            Storage::Packed(_) => DType::U8,
        };
        Ok(HostTensor::new(dtype, self.shape.clone(), bytes)?)
    }
}
