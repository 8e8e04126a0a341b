//! Writes the ranks as an archive, in which Perfetto shows each rank as a separate machine.
//!
//! All times are already on the first rank's clock. A viewer that ignores the manifest (Perfetto
//! before v58) shows the same timeline, without machines.

use std::io::{self, Write};

use mlprof_analysis::ranks::Ranks;
use serde_json::json;

use super::merged;

/// Writes one file per rank, and the manifest that assigns the files to machines.
pub(super) fn write(out: impl Write, ranks: &Ranks) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    let mut listed = Vec::new();
    let mut members = Vec::new();
    for (place, placed) in ranks.files.iter().enumerate() {
        let name = format!("rank-{}-{place}.json", placed.rank);
        let host = placed.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
        listed.push(json!({
            "path": name,
            "machine": { "name": format!("rank {}{host}", placed.rank) },
        }));
        members.push((name, placed));
    }
    let manifest = json!({ "perfetto_manifest": { "version": 1, "files": listed } });
    append(&mut archive, "perfetto_manifest.json", manifest.to_string().as_bytes())?;
    for (name, placed) in members {
        // A tar header contains the size of the member, so the member is first written to a
        // temporary file.
        let mut file = tempfile::tempfile()?;
        merged(io::BufWriter::new(&mut file), ranks, std::slice::from_ref(placed))?;
        append_file(&mut archive, &name, &mut file)?;
    }
    archive.into_inner()?.flush()
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, text: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(text.len() as u64), name, text)
}

fn append_file(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    file: &mut std::fs::File,
) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    archive.append_data(&mut header(size), name, file)
}
