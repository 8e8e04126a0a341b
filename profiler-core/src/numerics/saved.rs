//! Saves the first non-finite tensor and its input in a safetensors file.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use mlprof_events::{NumberReader, ObservedTensor, TensorNumbers};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::NumericsProfiler;
use super::readers::HashReader;
use crate::output::write_file;
use crate::report::numerics::RecordedTensor;

/// Maximum size of a file in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// Tensor to save.
struct Part<'tensor> {
    name: &'static str,
    tensor: &'tensor dyn TensorNumbers,
    dtype: Dtype,
    bytes: u64,
    hash: String,
}

/// Writes values as they are read, so that the file needs no buffer in memory.
struct WritingReader<'out> {
    dtype: Dtype,
    out: &'out mut dyn Write,
    /// Remaining bytes reserved in the file.
    left: u64,
    failure: Option<io::Error>,
}

impl WritingReader<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.failure = self.out.write_all(bytes).err();
            }
            None => {
                self.failure = Some(io::Error::other("the tensor has more numbers than its shape"))
            }
        }
    }
}

impl NumberReader for WritingReader<'_> {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.read_each(&mut numbers.iter().map(|number| f64::from(*number)), 0.0);
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.read_each(&mut numbers.iter().copied(), 0.0);
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {
        for number in numbers {
            match self.dtype {
                Dtype::F32 => self.write(&(number as f32).to_le_bytes()),
                _ => self.write(&number.to_le_bytes()),
            }
        }
    }
}

impl NumericsProfiler {
    /// Saves the first non-finite tensor.
    pub(super) fn save(&self, told: &ObservedTensor<'_>, recorded: &RecordedTensor) {
        let (stage, run) = (self.output.stage(), self.output.run());
        let Some(path) = self.output.part_path(stage, &run, "numerics.safetensors") else {
            return self.state().note(
                "no tensor was saved, because it needs a directory: set \
                                      dirpath",
            );
        };
        let saved = write(&path, recorded, told.tensor, told.input);
        let mut running = self.state();
        match saved {
            // The file is already listed, because an earlier gradient replaces a tensor that was
            // saved before.
            Ok(()) if running.files.contains(&path) => {}
            Ok(()) => running.files.push(path),
            Err(error) => {
                self.output.warn_of_missing(&path, &error);
                running.note(&format!(
                    "cannot save the non-finite tensor in {}: {error}",
                    path.display()
                ));
            }
        }
    }
}

/// Writes a tensor, and its input if it is known.
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
            "the tensors have {all} bytes, more than the limit of {MOST_BYTES}"
        )));
    }
    let saved: Vec<Part<'_>> = parts.filter_map(|(name, part)| part_of(name, part)).collect();
    let mut about = HashMap::from([
        ("role".to_owned(), told.role.to_string()),
        ("name".to_owned(), told.name.clone()),
        ("step".to_owned(), told.step.to_string()),
        ("call".to_owned(), told.call.to_string()),
        ("thread".to_owned(), told.thread.clone()),
        ("type".to_owned(), told.element_type.clone()),
    ]);
    about.extend(saved.iter().map(|part| (format!("{}_xxh3", part.name), part.hash.clone())));
    let header = header(&saved, about)?;
    write_file(path, |file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        file.write_all(&header)?;
        for part in &saved {
            part.write(&mut file)?;
        }
        file.flush()
    })
}

/// Returns the header of a safetensors file: the length of its metadata, followed by the metadata.
fn header(saved: &[Part<'_>], about: HashMap<String, String>) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let infos = saved.iter().map(|part| {
        let begin = end;
        end += part.bytes as usize;
        let shape = part.tensor.shape().into_iter().map(|side| side as usize).collect();
        let info = TensorInfo { dtype: part.dtype, shape, data_offsets: (begin, end) };
        (part.name.to_owned(), info)
    });
    let metadata = Metadata::new(Some(about), infos.collect()).map_err(io::Error::other)?;
    let mut text = serde_json::to_vec(&metadata)?;
    // The values must start at a multiple of eight bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    Ok(header)
}

impl Part<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut reader = WritingReader { dtype: self.dtype, out, left: self.bytes, failure: None };
        let is_read = self.tensor.read_waiting(&mut reader);
        match reader.failure {
            Some(error) => Err(error),
            None if is_read && reader.left == 0 => Ok(()),
            None => Err(io::Error::other("some of its numbers cannot be read")),
        }
    }
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

/// Returns the part for `tensor`, or `None` if it cannot be read.
fn part_of<'tensor>(
    name: &'static str,
    tensor: &'tensor dyn TensorNumbers,
) -> Option<Part<'tensor>> {
    let hash = HashReader::of(tensor).hash?;
    Some(Part { name, tensor, dtype: dtype(tensor), bytes: bytes_of(tensor), hash })
}
