//! Messages in a stream (RFC 1035 section 4.2.2), without a socket.
//!
//! `tcp` reads into [`Framing::room`], calls [`Framing::answer`] to answer complete messages, and writes the replies.
//! This module limits the memory of a connection to one incomplete query and [`MAX_OUTBOX`] octets of replies.

use std::cell::RefCell;

/// Maximum length of a query. No query needs more, and a client must not reserve 64 KiB by announcing a length.
pub const MAX_QUERY: usize = 4096;
/// Octets of the length before a message.
pub const LENGTH_PREFIX: usize = 2;
/// Maximum length of a message.
pub const MAX_MESSAGE: usize = 65_535;
/// Maximum number of octets of queued replies. One message may exceed it.
pub const MAX_OUTBOX: usize = 16 * 1024;

/// The buffers of a connection.
#[derive(Debug, Default)]
pub struct Framing {
    /// Received octets.
    inbox: Vec<u8>,
    /// Number of octets of the inbox that have been answered.
    answered: usize,
    /// Queued replies with their lengths. They are removed after they were written.
    pub outbox: Vec<u8>,
}

/// The reason why [`Framing::answer`] stops.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// The queued replies must be written first.
    OutboxFull,
    /// The next message is not complete.
    Incomplete,
    /// The data is not from a DNS client.
    Malformed,
}

// === impl Framing ===

impl Framing {
    /// Removes the answered octets, and returns the inbox for appending. Its capacity is exactly one query with its
    /// length, and must not be exceeded.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.inbox.drain(..self.answered);
        self.answered = 0;
        self.inbox
            .reserve_exact(LENGTH_PREFIX + MAX_QUERY - self.inbox.len());
        &mut self.inbox
    }

    /// Answers complete messages in order until the outbox is full. Returns the reason for stopping, and the number of
    /// answered messages.
    ///
    /// `answer` writes the reply to a message and returns its length. It returns `None` if the message is not from a
    /// client.
    pub fn answer(
        &mut self,
        mut answer: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
    ) -> (Pause, usize) {
        thread_local! {
            /// Buffer for a message. It is used only during the call, so connections can share it.
            static MESSAGE_ROOM: RefCell<Box<[u8]>> =
                RefCell::new(vec![0; LENGTH_PREFIX + MAX_MESSAGE].into_boxed_slice());
        }
        let mut count = 0;
        let pause = MESSAGE_ROOM.with_borrow_mut(|room| {
            loop {
                if self.outbox.len() >= MAX_OUTBOX {
                    return Pause::OutboxFull;
                }
                let unanswered = &self.inbox[self.answered..];
                let Some((prefix, octets)) = unanswered.split_first_chunk::<LENGTH_PREFIX>() else {
                    return Pause::Incomplete;
                };
                let length = usize::from(u16::from_be_bytes(*prefix));
                if length > MAX_QUERY {
                    return Pause::Malformed;
                }
                let Some(packet) = octets.get(..length) else {
                    return Pause::Incomplete;
                };
                self.answered += LENGTH_PREFIX + length;
                let Some(length) = answer(packet, &mut room[LENGTH_PREFIX..]) else {
                    return Pause::Malformed;
                };
                // The length fits 16 bits. It is sent together with the message (RFC 7766 section 8).
                room[..LENGTH_PREFIX].copy_from_slice(&(length as u16).to_be_bytes());
                self.outbox
                    .extend_from_slice(&room[..LENGTH_PREFIX + length]);
                count += 1;
            }
        });
        (pause, count)
    }

    /// Releases memory that only many replies at once need.
    pub fn shrink(&mut self) {
        self.outbox.shrink_to(MAX_QUERY);
    }

    /// Returns whether the inbox has octets that are not answered.
    pub fn has_unanswered(&self) -> bool {
        self.answered < self.inbox.len()
    }
}
