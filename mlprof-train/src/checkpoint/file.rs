//! Checkpoint files in the safetensors format. Tensors that belong to no other section are the
//! weights.

use std::collections::HashMap;
use std::path::Path;

use mlprof_events::files;
use safetensors::SafeTensors;
use xxhash_rust::xxh3::Xxh3Default;

use super::{Checkpoint, TRAINER, WEIGHTS};
use crate::error::Result;
use crate::saved_state::{SavedState, SavedTensor};

/// Prefix for the names of all values and of all tensors that are not weights.
const PREFIX: &str = "mlprof:";
/// Name of the checksum over the rest of the file.
const CHECKSUM: &str = "mlprof:checksum";

impl Checkpoint {
    /// Writes the checkpoint to `path`, complete or not at all.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written, or if the name of a weight begins with
    /// `mlprof:`.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        Ok(files::write_file(path, |file| file.write_all(&bytes))?)
    }

    /// Reads a checkpoint and verifies its checksum.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a checkpoint of a
    /// [`Trainer`](crate::Trainer), or is damaged.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_bytes(&files::read(path, u64::MAX)?)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let weights = self.sections.get(WEIGHTS).into_iter().flat_map(SavedState::tensors);
        let mut tensors: Vec<(String, &SavedTensor)> =
            weights.map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        if let Some((name, _)) = tensors.iter().find(|(name, _)| name.starts_with(PREFIX)) {
            return Err(format!("the weight name {name:?} is reserved").into());
        }
        let mut values = HashMap::new();
        for (section, state) in &self.sections {
            let full = |name: &str| format!("{PREFIX}{}/{name}", escaped(section));
            values.extend(state.values().map(|(name, value)| (full(name), value.to_owned())));
            if section != WEIGHTS {
                tensors.extend(state.tensors().map(|(name, tensor)| (full(name), tensor)));
            }
        }
        values.insert(CHECKSUM.to_owned(), self.checksum());
        Ok(safetensors::serialize(tensors, Some(values))?)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let foreign = "it is not a checkpoint of mlprof's trainer: it contains only weights, or has another \
             format";
        let damaged = |error| format!("it is damaged, or not a checkpoint: {error}");
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let mut values = metadata.metadata().clone().unwrap_or_default();
        let checksum = values.remove(CHECKSUM).ok_or(foreign)?;
        let mut found = Self::default();
        for (name, value) in values {
            if let Some((section, name)) = parts(&name) {
                found.section_mut(&section).values.insert(name.to_owned(), value);
            }
        }
        for (full, view) in tensors.iter() {
            let (section, name) = parts(full).unwrap_or((WEIGHTS.to_owned(), full));
            let (dtype, shape) = (view.dtype(), view.shape().to_vec());
            let tensor = SavedTensor::new(dtype, shape, view.data().to_vec())?;
            found.section_mut(&section).tensors.insert(name.to_owned(), tensor);
        }
        if checksum != found.checksum() {
            return Err("it is damaged: its content does not match its checksum".into());
        }
        let version: u32 = found.section(TRAINER).ok_or(foreign)?.get("version")?;
        if version != super::VERSION {
            return Err(format!(
                "it has format version {version}, and this mlprof supports version {}",
                super::VERSION
            )
            .into());
        }
        Ok(found)
    }

    /// Returns the XXH3 hash of all sections, in the order of their names.
    fn checksum(&self) -> String {
        let mut hasher = Xxh3Default::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        for (section, state) in self.sections.iter().filter(|(_, state)| !state.is_empty()) {
            add(section.as_bytes());
            for (name, value) in state.values() {
                add(name.as_bytes());
                add(value.as_bytes());
            }
            for (name, tensor) in state.tensors() {
                add(name.as_bytes());
                add(tensor.dtype().to_string().as_bytes());
                tensor.shape().iter().for_each(|side| add(&(*side as u64).to_le_bytes()));
                add(tensor.bytes());
            }
        }
        format!("{:016x}", hasher.digest())
    }
}

/// Returns the name of a section with its slashes escaped.
fn escaped(section: &str) -> String {
    section.replace('%', "%25").replace('/', "%2F")
}

/// Returns the section and the name of a value, or of a tensor that is not a weight.
fn parts(full: &str) -> Option<(String, &str)> {
    let (section, name) = full.strip_prefix(PREFIX)?.split_once('/')?;
    Some((section.replace("%2F", "/").replace("%25", "%"), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_state::Dtype;

    fn checkpoint() -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        let tensor = |bytes: [u8; 4]| SavedTensor::new(Dtype::F32, vec![1], bytes.to_vec());
        checkpoint.section_mut(WEIGHTS).set_tensor("w", tensor([1, 2, 3, 4]).expect("made"));
        checkpoint.section_mut("optimizer").set_tensor("w", tensor([5, 6, 7, 8]).expect("made"));
        checkpoint.section_mut("callback a/b%2F").set("best", f64::INFINITY);
        checkpoint.section_mut(TRAINER).set("version", super::super::VERSION);
        checkpoint
    }

    #[test]
    fn written_data_is_read_back() {
        let bytes = checkpoint().to_bytes().expect("written");
        assert_eq!(Checkpoint::from_bytes(&bytes).expect("read"), checkpoint());
        let plain = SafeTensors::deserialize(&bytes).expect("safetensors");
        assert_eq!(plain.tensor("w").expect("by its own name").data(), [1, 2, 3, 4]);
    }

    #[test]
    fn each_damaged_byte_and_each_cut_is_refused() {
        let bytes = checkpoint().to_bytes().expect("written");
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            let read = Checkpoint::from_bytes(&damaged);
            // Trailing spaces in the header have no meaning.
            assert!(read.is_err() || bytes[place] == b' ', "byte {place}");
            assert!(Checkpoint::from_bytes(&bytes[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn foreign_files_are_refused_with_one_sentence() {
        let foreign = safetensors::serialize(Vec::<(String, &SavedTensor)>::new(), None);
        for bytes in [foreign.expect("made"), Vec::new(), b"{}".to_vec(), vec![b'x'; 4096]] {
            let error = Checkpoint::from_bytes(&bytes).expect_err("refused").to_string();
            assert!(error.contains("not a checkpoint") && !error.contains('\n'), "{error}");
        }
    }
}
