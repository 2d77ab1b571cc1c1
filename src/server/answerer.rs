//! Converts messages to replies, for every transport. It makes no decision itself: [`wire`] parses the message, applies the
//! policy and writes the reply.

use std::net::SocketAddr;
use std::sync::Arc;

use tracing::field::display;
use tracing::warn;

use super::counters::{CounterSet, Counters, count};
use super::refused::RefusedClients;
use crate::clock::unix_seconds;
use crate::log::LogLimiter;
use crate::table::publish::{Current, Reader};
use crate::wire::{self, Body, QueryContext, Reply, ResponseSettings, Transport};
use crate::zone::Answer;

/// Converts messages to replies. Every UDP worker has its own, so that no two threads write to the same counter. TCP
/// connections share one.
pub struct Answerer {
    pub(super) shared: Arc<SharedAnswerer>,
    pub(super) counters: Arc<Counters>,
}

/// What all answerers share.
pub(super) struct SharedAnswerer {
    pub(super) settings: ResponseSettings,
    refused: RefusedClients,
    reader: Reader,
    pub(super) counters: CounterSet,
    oversized_answers: LogLimiter,
    pub(super) receive_failures: LogLimiter,
    pub(super) send_failures: LogLimiter,
}

/// The table and time for messages that arrived together.
pub(super) struct BatchContext {
    table: Current,
    /// Unix seconds.
    time: u32,
}

// === impl Answerer ===

impl Answerer {
    /// Creates an answerer with counters of the set, which notes refused clients.
    pub fn new(
        settings: ResponseSettings,
        refused: RefusedClients,
        reader: Reader,
        counters: CounterSet,
    ) -> Self {
        let own = counters.add();
        let shared = SharedAnswerer {
            settings,
            refused,
            reader,
            counters,
            oversized_answers: LogLimiter::default(),
            receive_failures: LogLimiter::default(),
            send_failures: LogLimiter::default(),
        };
        Self {
            shared: Arc::new(shared),
            counters: own,
        }
    }

    /// Returns an answerer with counters of its own, for another thread.
    pub(super) fn for_thread(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            counters: self.shared.counters.add(),
        }
    }

    /// Returns the current table and time for a batch of queries. Drop it after the batch: it keeps an old table in memory.
    pub(super) fn batch_context(&self) -> BatchContext {
        BatchContext {
            table: self.shared.reader.load(),
            time: unix_seconds(),
        }
    }

    /// Writes the reply to a message into `out`, counts it, and returns its length. `None` means that no reply is sent.
    pub(super) fn answer(
        &self,
        batch: &BatchContext,
        packet: &[u8],
        transport: Transport,
        client: SocketAddr,
        out: &mut [u8],
    ) -> Option<usize> {
        if client.port() == 0 || client.ip().is_unspecified() {
            count(&self.counters.dropped); // the source is forged: nothing can be sent to it
            return None;
        }
        let Some(message) = wire::parse(packet) else {
            count(&self.counters.dropped);
            return None;
        };
        let context = QueryContext {
            transport,
            is_allowed: self.shared.settings.access.is_allowed(client.ip()),
            // The generator of this thread: no word is shared with other threads.
            turn: fastrand::u32(..),
        };
        let reply = wire::respond(&self.shared.settings, &batch.table, &message, &context);
        if !context.is_allowed {
            self.shared.refused.note(client.ip(), batch.time);
        }
        let written = wire::write(&reply, &message, packet, out);
        let rtype = message.query.as_ref().ok().map(|query| query.rtype);
        self.counters.count_request(transport, rtype);
        self.counters.count_response(reply.rcode);
        if written.is_truncated {
            self.note_truncated(&reply, transport, batch);
        }
        Some(written.length)
    }

    /// Counts a truncated reply. Except over UDP, it means that no message can hold the answer: a warning names the service,
    /// because questions are not logged.
    fn note_truncated(&self, reply: &Reply<'_>, transport: Transport, batch: &BatchContext) {
        count(&self.counters.truncated[transport as usize]);
        if transport == Transport::Udp || !self.shared.oversized_answers.is_due(batch.time) {
            return;
        }
        // An address can belong to many services.
        let service = match &reply.body {
            Body::Answer(Answer::Data(view, _)) => Some(display(&view.service.key)),
            _ => None,
        };
        warn!(
            service,
            "An answer does not fit 65,535 octets and is truncated"
        );
    }
}
