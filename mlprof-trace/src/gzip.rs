//! Streaming compression with gzip.

use std::io::{self, Write};

use miniz_oxide::deflate::core::CompressorOxide;
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

/// Compression level on a scale from 0 to 10: the fastest one that compresses.
const LEVEL: u8 = 1;

/// Header according to RFC 1952: no name, no time, fastest compression, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Writer that compresses its input. The output is complete only after [`finish`](Self::finish).
pub(crate) struct GzipWriter<W> {
    out: W,
    compressor: Box<CompressorOxide>,
    checksum: crc32fast::Hasher,
    /// Number of input bytes modulo 2³², as the format requires for files of any length.
    length: u32,
    compressed: Box<[u8]>,
}

impl<W: Write> GzipWriter<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        let mut compressor = Box::<CompressorOxide>::default();
        compressor.set_format_and_level(DataFormat::Raw, LEVEL);
        Ok(Self {
            out,
            compressor,
            checksum: crc32fast::Hasher::new(),
            length: 0,
            compressed: vec![0; 1 << 15].into_boxed_slice(),
        })
    }

    /// Writes the remaining data and the checksum.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        while self.compress(&[], MZFlush::Finish)?.1 != MZStatus::StreamEnd {}
        self.out.write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&self.length.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Compresses `bytes`, and returns the number of consumed bytes and the state of the stream.
    fn compress(&mut self, bytes: &[u8], flush: MZFlush) -> io::Result<(usize, MZStatus)> {
        let result = deflate(&mut self.compressor, bytes, &mut self.compressed, flush);
        let status = result.status.map_err(|error| io::Error::other(format!("{error:?}")))?;
        self.out.write_all(&self.compressed[..result.bytes_written])?;
        Ok((result.bytes_consumed, status))
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut taken = 0;
        // Data that is already compressed may fill the buffer before any input is consumed.
        while taken == 0 {
            taken = self.compress(bytes, MZFlush::None)?.0;
        }
        self.checksum.update(&bytes[..taken]);
        self.length = self.length.wrapping_add(taken as u32);
        Ok(taken)
    }

    /// Does not write anything. Frequent flushes reduce the compression, and readers need the end
    /// of the file anyway.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::Read;

    use super::*;

    fn read_back(parts: &[Vec<u8>]) -> usize {
        let mut writer = GzipWriter::new(Vec::new()).expect("a vector");
        for part in parts {
            writer.write_all(part).expect("a vector");
            writer.flush().expect("nothing to do");
        }
        let file = writer.finish().expect("a vector");
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut text).expect("a whole file");
        assert!(text == parts.concat());
        file.len()
    }

    #[test]
    fn written_bytes_are_read_back() {
        read_back(&[]);
        read_back(&[Vec::new(), b"a".to_vec(), Vec::new()]);
        let events: Vec<Vec<u8>> = (0..20_000_u32)
            .map(|number| {
                format!("{{\"ph\":\"X\",\"ts\":{number},\"name\":\"aten::add\"}},\n").into_bytes()
            })
            .collect();
        let length: usize = events.iter().map(Vec::len).sum();
        assert!(read_back(&events) * 5 < length, "it is compressed");
        assert!(read_back(&[events.concat()]) * 5 < length, "in one piece, too");
    }

    #[test]
    fn incompressible_bytes_are_read_back() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(1 << 20)
        .collect();
        read_back(&[noise[..100_001].to_vec(), noise[100_001..].to_vec()]);
    }

    #[test]
    fn the_length_is_modulo_four_gigabytes() {
        let mut writer = GzipWriter::new(Vec::new()).expect("a vector");
        writer.length = u32::MAX - 1;
        writer.write_all(b"abcd").expect("a vector");
        let file = writer.finish().expect("a vector");
        assert_eq!(file[file.len() - 4..], 2_u32.to_le_bytes());
    }

    #[test]
    fn errors_of_the_file_are_handed_on() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = GzipWriter::new(Full).map(|_| ()).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
