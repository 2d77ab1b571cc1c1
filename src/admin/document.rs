//! Long documents: the summary, and the table as JSON and as a zone file.
//!
//! A document is rendered once for all readers that want it at the same time, by a thread of its own, one service after the
//! other. It is kept in compressed form only, a tenth of its size, until the last of its readers has it. So a slow reader
//! keeps neither a replaced table nor the whole text in memory. A reader that does not accept gzip gets the text, which is
//! decompressed as it reads. The memory of all documents together is limited.

use std::convert::Infallible;
use std::io::{self, BufWriter, Read, Write};
use std::sync::{Arc, Weak};

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::stream;
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::task::spawn_blocking;

use super::body::{GZIP, VARY_ENCODING, accepts_gzip, failure};
use super::head::Head;
use super::limits::{Memory, no_memory};
use crate::model::{Problem, Timestamp};
use crate::report::{write_report, write_summary};
use crate::table::Published;
use crate::zone::print::write_zone_file;
use crate::zone::{Zone, Zones};

/// Length of the pieces of a document, compressed and not, in octets.
const PIECE: usize = 64 * 1024;

/// The documents that are being read. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    /// The lock is held while a document is rendered, so that there is one rendering at a time.
    last: Arc<Mutex<Last>>,
    memory: Memory,
}

/// The document that was rendered last, if it is still being read.
#[derive(Debug, Default)]
struct Last {
    form: Option<Form>,
    table: Weak<Published>,
    document: Weak<Document>,
}

/// The form of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// The table, at this time if it is not the current one, with these problems of the server.
    Json(Option<Timestamp>, Vec<Problem>),
    /// The summary with this head.
    Summary(Box<Head>),
    ZoneFile(Box<Zone>),
}

/// A compressed document.
#[derive(Debug)]
struct Document {
    pieces: Vec<Bytes>,
    /// Length of the text in octets.
    text_length: u64,
    _memory: Vec<OwnedSemaphorePermit>,
}

/// Collects the pieces of a document within the limit of memory.
struct Pieces {
    memory: Memory,
    complete: Vec<Bytes>,
    permits: Vec<OwnedSemaphorePermit>,
    current: Vec<u8>,
}

/// The text of a document, which is compressed and counted.
struct DocumentText {
    gzip: GzEncoder<Pieces>,
    length: u64,
}

/// The position of a reader in a document.
struct ReadPosition {
    document: Arc<Document>,
    piece: usize,
    offset: usize,
}

// === impl Documents ===

impl Documents {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            last: Arc::default(),
            memory,
        }
    }

    /// Returns the response with a table in a form. `table` returns the table when the rendering begins.
    pub(super) async fn respond(
        &self,
        zones: &Arc<Zones>,
        table: impl FnOnce() -> Arc<Published>,
        form: Form,
        headers: &HeaderMap,
    ) -> Response {
        let content_type = form.content_type();
        let document = match self.document(zones, table, form).await {
            Ok(document) => document,
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => return no_memory(),
            Err(error) => return failure(&error),
        };
        let position = ReadPosition {
            document,
            piece: 0,
            offset: 0,
        };
        let head = [(CONTENT_TYPE, content_type), VARY_ENCODING];
        let pieces = &position.document.pieces;
        // The body has no size of its own, because its memory is counted already. Simple clients need the length.
        let length = |length: u64| (CONTENT_LENGTH, HeaderValue::from(length));
        if accepts_gzip(headers) {
            let octets = pieces.iter().map(|piece| piece.len() as u64).sum();
            let encoding = [GZIP, length(octets)];
            let pieces = stream::unfold(position, async |mut position| {
                let piece = position.document.pieces.get(position.piece)?.clone();
                position.piece += 1;
                Some((Ok::<_, Infallible>(piece), position))
            });
            (head, encoding, Body::from_stream(pieces)).into_response()
        } else {
            let length = [length(position.document.text_length)];
            let text = GzDecoder::new(position);
            let text = stream::try_unfold(text, async |mut text| {
                let mut piece = Vec::with_capacity(PIECE);
                (&mut text).take(PIECE as u64).read_to_end(&mut piece)?;
                let next = (!piece.is_empty()).then(|| (Bytes::from(piece), text));
                io::Result::Ok(next)
            });
            (head, length, Body::from_stream(text)).into_response()
        }
    }

    /// Returns the document that is being read, or renders it.
    async fn document(
        &self,
        zones: &Arc<Zones>,
        table: impl FnOnce() -> Arc<Published>,
        form: Form,
    ) -> io::Result<Arc<Document>> {
        // The lock is held until the rendering ends, also if the client has gone meanwhile.
        let mut last = self.last.clone().lock_owned().await;
        let now = table();
        if let Some(document) = last.document_of(&form, &now) {
            return Ok(document);
        }
        let (zones, memory) = (zones.clone(), self.memory.clone());
        let render = move || {
            let document = Arc::new(form.render(&zones, &now, memory)?);
            *last = Last {
                form: Some(form),
                table: Arc::downgrade(&now),
                document: Arc::downgrade(&document),
            };
            Ok(document)
        };
        spawn_blocking(render).await.map_err(io::Error::other)?
    }
}

// === impl Last ===

impl Last {
    /// Returns the document, if it has this form and is of this table.
    fn document_of(&self, form: &Form, table: &Arc<Published>) -> Option<Arc<Document>> {
        let is_table = std::ptr::eq(self.table.as_ptr(), Arc::as_ptr(table));
        let is_form = self.form.as_ref() == Some(form);
        self.document.upgrade().filter(|_| is_table && is_form)
    }
}

// === impl Form ===

impl Form {
    fn content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json(..) | Self::Summary(_) => "application/json",
            Self::ZoneFile(_) => "text/plain; charset=utf-8",
        })
    }

    /// Writes a table in this form.
    fn render(&self, zones: &Zones, table: &Published, memory: Memory) -> io::Result<Document> {
        let mut out = DocumentText {
            gzip: GzEncoder::new(Pieces::new(memory), Compression::fast()),
            length: 0,
        };
        // Both write short texts.
        let mut buffered = BufWriter::new(&mut out);
        match self {
            Self::Json(at, problems) => {
                write_report(&mut buffered, zones, table, *at, problems)?;
            }
            Self::Summary(head) => write_summary(&mut buffered, head, zones, table)?,
            Self::ZoneFile(zone) => write_zone_file(&mut buffered, zones, zone, table)?,
        }
        buffered.flush()?;
        drop(buffered);
        out.gzip.finish()?.into_document(out.length)
    }
}

// === impl DocumentText ===

impl Write for DocumentText {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.gzip.write(octets)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // the pieces do not follow the lines
    }
}

// === impl Pieces ===

impl Pieces {
    fn new(memory: Memory) -> Self {
        Self {
            memory,
            complete: Vec::new(),
            permits: Vec::new(),
            current: Vec::new(),
        }
    }

    /// Reserves memory for the current piece, and begins the next one.
    fn complete(&mut self) -> io::Result<()> {
        let permit = self.memory.reserve(self.current.len());
        self.permits.push(permit.ok_or(io::ErrorKind::OutOfMemory)?);
        let piece = std::mem::take(&mut self.current);
        self.complete.push(piece.into_boxed_slice().into());
        Ok(())
    }

    fn into_document(mut self, text_length: u64) -> io::Result<Document> {
        self.complete()?;
        Ok(Document {
            pieces: self.complete,
            text_length,
            _memory: self.permits,
        })
    }
}

impl Write for Pieces {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.current.len() >= PIECE {
            self.complete()?;
        }
        let room = PIECE - self.current.len();
        let written = &octets[..octets.len().min(room)];
        self.current.extend_from_slice(written);
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl ReadPosition ===

impl Read for ReadPosition {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.document.pieces.get(self.piece) {
            let rest = &piece[self.offset..];
            if !rest.is_empty() {
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                self.offset += count;
                return Ok(count);
            }
            self.piece += 1;
            self.offset = 0;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Timestamp;
    use crate::table::store::ServiceKeys;
    use crate::table::{Built, Publisher, Table};
    use crate::testing::zones;

    fn publish(publisher: &Publisher) {
        let built = Built {
            table: Table::default(),
            is_changed: true,
            has_other_answers: true,
            timers: Vec::new(),
            services: ServiceKeys::new(),
        };
        publisher.publish(built, Timestamp(1), 1);
    }

    /// Returns octets that cannot be compressed.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[tokio::test]
    async fn readers_of_one_table_share_a_document_and_keep_no_table() {
        let (publisher, zones) = (Publisher::default(), Arc::new(zones(&["global"])));
        let reader = publisher.reader();
        let documents = Documents::new(Memory::new(1024));
        publish(&publisher);
        let table = Arc::downgrade(&reader.load());
        let read = async || {
            documents
                .document(
                    &zones,
                    || Arc::clone(&reader.load()),
                    Form::Json(None, Vec::new()),
                )
                .await
                .unwrap()
        };
        let (first, second) = (read().await, read().await);
        assert!(Arc::ptr_eq(&first, &second));
        let zone = Form::ZoneFile(Box::new(zones.iter().next().unwrap().clone()));
        let zone = documents
            .document(&zones, || Arc::clone(&reader.load()), zone)
            .await
            .unwrap();
        assert!(!Arc::ptr_eq(&first, &zone));
        let third = read().await;
        publish(&publisher);
        assert!(!Arc::ptr_eq(&third, &read().await));
        assert!(table.upgrade().is_none(), "a reader keeps a replaced table");
    }

    #[test]
    fn long_document_is_read_in_pieces() {
        let text = noise(5 * PIECE + 17);
        let mut out = GzEncoder::new(Pieces::new(Memory::new(1024)), Compression::fast());
        out.write_all(&text).unwrap();
        let document = out.finish().unwrap().into_document(0).unwrap();
        assert_eq!(document.pieces.len(), 6);
        assert!(document.pieces.iter().all(|piece| piece.len() <= PIECE));
        let position = ReadPosition {
            document: Arc::new(document),
            piece: 0,
            offset: 0,
        };
        let mut read = Vec::new();
        GzDecoder::new(position).read_to_end(&mut read).unwrap();
        assert!(read == text);
    }

    #[test]
    fn document_without_memory_is_not_made_and_frees_what_it_had() {
        let memory = Memory::new(256);
        let mut pieces = Pieces::new(memory.clone());
        let error = pieces.write_all(&noise(512 * 1024)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(memory.reserve(64 * 1024).is_none());
        drop(pieces);
        assert!(memory.reserve(256 * 1024).is_some());
    }
}
