//! Tensors in a file that others read: the first that was not finite, and its input.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use profiler_events::{NumberReader, ObservedTensor, TensorNumbers};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize_to_file};

use super::NumericsProfiler;
use super::readers::HashReader;
use crate::report::numerics::RecordedTensor;

/// So many bytes a file has at most.
const MOST_BYTES: u64 = 1 << 30;

/// A tensor's numbers, as they are saved.
struct Saved {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
    hash: String,
}

/// Keeps numbers as bytes.
struct BytesReader {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl NumberReader for BytesReader {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.read_each(&mut numbers.iter().map(|number| f64::from(*number)), 0.0);
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.read_each(&mut numbers.iter().copied(), 0.0);
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {
        for number in numbers {
            match self.dtype {
                Dtype::F32 => self.bytes.extend((number as f32).to_le_bytes()),
                _ => self.bytes.extend(number.to_le_bytes()),
            }
        }
    }
}

impl NumericsProfiler {
    /// Saves the first tensor that is not finite.
    pub(super) fn save(&self, told: &ObservedTensor<'_>, recorded: &RecordedTensor) {
        let (stage, run) = (self.output.stage(), self.output.run());
        let Some(path) = self.output.part_path(stage, &run, "numerics.safetensors") else {
            return self.state().note("no tensor was saved: it needs a directory, set dirpath");
        };
        let saved = write(&path, recorded, told.tensor, told.input);
        let mut running = self.state();
        match saved {
            Ok(()) => running.files.push(path),
            Err(error) => {
                self.output.warn_of_missing(&path, &error);
                running.note(&format!(
                    "what was not finite was not saved in {}: {error}",
                    path.display()
                ));
            }
        }
    }
}

/// Writes a tensor, and what it was computed from where that is known.
fn write(
    path: &Path,
    told: &RecordedTensor,
    tensor: &dyn TensorNumbers,
    input: Option<&dyn TensorNumbers>,
) -> io::Result<()> {
    let parts = [(told.role.name(), Some(tensor)), ("input", input)];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part?)));
    let all: u64 = parts.clone().map(|(_, part)| bytes_of(part)).sum();
    if all > MOST_BYTES {
        return Err(io::Error::other(format!(
            "they have {all} bytes, and at most {MOST_BYTES} are saved"
        )));
    }
    let saved: Vec<Saved> = parts.filter_map(|(name, part)| read(name, part)).collect();
    let mut about = HashMap::from([
        ("role".to_owned(), told.role.to_string()),
        ("name".to_owned(), told.name.clone()),
        ("step".to_owned(), told.step.to_string()),
        ("call".to_owned(), told.call.to_string()),
        ("thread".to_owned(), told.thread.clone()),
        ("type".to_owned(), told.element_type.clone()),
    ]);
    about.extend(saved.iter().map(|part| (format!("{}_xxh3", part.name), part.hash.clone())));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let views = saved.iter().map(|part| {
        let view = TensorView::new(part.dtype, part.shape.clone(), &part.bytes);
        view.map(|view| (part.name, view)).map_err(io::Error::other)
    });
    let views: Vec<_> = views.collect::<io::Result<_>>()?;
    serialize_to_file(views, Some(about), path).map_err(io::Error::other)
}

fn dtype(tensor: &dyn TensorNumbers) -> Dtype {
    match tensor.element_type() {
        "f32" | "f16" | "bf16" => Dtype::F32,
        _ => Dtype::F64,
    }
}

fn bytes_of(tensor: &dyn TensorNumbers) -> u64 {
    let each = if dtype(tensor) == Dtype::F32 { 4 } else { 8 };
    tensor.shape().iter().product::<u64>().saturating_mul(each)
}

/// `None` where it cannot be read.
fn read(name: &'static str, tensor: &dyn TensorNumbers) -> Option<Saved> {
    let dtype = dtype(tensor);
    let mut reader = BytesReader { dtype, bytes: Vec::new() };
    let hash = HashReader::of(tensor)?;
    tensor.read(&mut reader).then(|| Saved {
        name,
        dtype,
        shape: tensor.shape().into_iter().map(|side| side as usize).collect(),
        bytes: reader.bytes,
        hash,
    })
}
