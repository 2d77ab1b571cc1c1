//! Messages in a stream (RFC 1035 section 4.2.2), without a socket: octets in, replies out.
//!
//! `tcp` reads into [`Framing::room`], has [`Framing::answer`] make replies of what arrived whole, and
//! writes them. How much is held for a connection is decided here: one query that has not arrived whole, and replies up
//! to [`OUTBOX`] octets.

use std::cell::RefCell;

/// Octets of a query that are accepted: no query needs more, and a client must not make us hold 64 KiB by a promise.
pub const QUERY: usize = 4096;
/// Octets of the length before a message, and of the longest message.
pub const PREFIX: usize = 2;
/// Octets of the longest message.
pub const MESSAGE: usize = 65_535;
/// Octets of replies that wait to be written; one more message may come on top.
pub const OUTBOX: usize = 16 * 1024;

/// What a connection holds between two looks at its socket.
#[derive(Debug, Default)]
pub struct Framing {
    /// Octets that have arrived.
    inbox: Vec<u8>,
    /// How many of them have been answered.
    done: usize,
    /// Replies with their lengths, not written yet.
    outbox: Vec<u8>,
}

/// Why no more is answered for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Replies are to be written first.
    Full,
    /// The rest of a message, or all of it, has not arrived.
    Rest,
    /// What arrived is not from a client of DNS.
    Misuse,
}

/// A message was announced that is longer than any query.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

// === impl Framing ===

impl Framing {
    /// Forgets what has been answered, and returns where octets that arrive are to be put behind those that are there.
    /// There is room for a whole query and no more: what is in the buffer's capacity is all that is to be added.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.inbox.drain(..self.done);
        self.done = 0;
        self.inbox.reserve_exact(PREFIX + QUERY - self.inbox.len());
        &mut self.inbox
    }

    /// Answers what has arrived whole, in order, until the outbox is full. Tells why it ended, and how many messages were
    /// answered.
    ///
    /// `answer` writes the reply to a message and returns its length; `None`: this is no message of a client.
    pub fn answer(
        &mut self,
        mut answer: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
    ) -> (Pause, usize) {
        thread_local! {
            /// Room for the longest message. None of it outlives the call, so connections need not have one each.
            static MESSAGE_ROOM: RefCell<Box<[u8]>> =
                RefCell::new(vec![0; PREFIX + MESSAGE].into_boxed_slice());
        }
        let mut count = 0;
        let pause = MESSAGE_ROOM.with_borrow_mut(|room| {
            loop {
                if self.outbox.len() >= OUTBOX {
                    return Pause::Full;
                }
                let packet = match next(&self.inbox, &mut self.done) {
                    Ok(Some(packet)) => packet,
                    Ok(None) => return Pause::Rest,
                    Err(TooLong) => return Pause::Misuse,
                };
                let Some(length) = answer(packet, &mut room[PREFIX..]) else {
                    return Pause::Misuse;
                };
                // A message has at most 65,535 octets. Its length and itself go with one write (RFC 7766 section 8).
                room[..PREFIX].copy_from_slice(&(length as u16).to_be_bytes());
                self.outbox.extend_from_slice(&room[..PREFIX + length]);
                count += 1;
            }
        });
        (pause, count)
    }

    /// Returns the replies that are to be written.
    pub fn replies(&self) -> &[u8] {
        &self.outbox
    }

    /// Forgets the replies, which were written.
    pub fn forget_replies(&mut self) {
        self.outbox.clear();
    }

    /// Gives back memory that only many replies at once need.
    pub fn shrink(&mut self) {
        self.outbox.shrink_to(QUERY);
    }

    /// Tells whether a message has begun that is not answered.
    pub fn has_begun(&self) -> bool {
        self.done < self.inbox.len()
    }

    /// Returns how many octets of memory this takes.
    pub fn held(&self) -> usize {
        self.inbox.capacity() + self.outbox.capacity()
    }
}

/// Takes the next whole message behind those that are `done`, if it is there.
fn next<'i>(inbox: &'i [u8], done: &mut usize) -> Result<Option<&'i [u8]>, TooLong> {
    let Some((prefix, octets)) = inbox[*done..].split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes(*prefix));
    if length > QUERY {
        return Err(TooLong);
    }
    let message = octets.get(..length);
    if message.is_some() {
        *done += PREFIX + length;
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_they_arrive() {
        let stream = [&[0, 3, 1, 2, 3, 0, 0][..], &[0, 1, 9], &[0, 2, 7, 8]].concat();
        for step in 1..=stream.len() {
            let mut framing = Framing::default();
            let mut messages = Vec::new();
            for octets in stream.chunks(step) {
                framing.room().extend(octets);
                let echo = |message: &[u8], out: &mut [u8]| {
                    messages.push(message.to_vec());
                    out[..message.len()].copy_from_slice(message);
                    Some(message.len())
                };
                assert_eq!(framing.answer(echo).0, Pause::Rest);
            }
            assert!(!framing.has_begun());
            assert_eq!(messages, [vec![1, 2, 3], vec![], vec![9], vec![7, 8]]);
            assert_eq!(framing.replies(), stream);
        }
    }

    #[test]
    fn an_inbox_never_grows_beyond_one_query() {
        let mut framing = Framing::default();
        let room = framing.room();
        room.extend(4096_u16.to_be_bytes());
        room.resize(PREFIX + QUERY - 1, 0);
        assert_eq!(framing.answer(|_, _| None), (Pause::Rest, 0));
        assert_eq!(framing.room().capacity(), PREFIX + QUERY);
        framing.room().push(0);
        let length = |message: &[u8], _: &mut [u8]| {
            assert_eq!(message.len(), QUERY);
            Some(0)
        };
        assert_eq!(framing.answer(length), (Pause::Rest, 1));
        framing.room().extend(4097_u16.to_be_bytes());
        assert_eq!(framing.answer(|_, _| Some(0)), (Pause::Misuse, 0));
    }

    #[test]
    fn replies_that_wait_hold_back_the_next_answers() {
        let mut framing = Framing::default();
        framing.room().extend([0, 0].repeat(3));
        let long = |_: &[u8], _: &mut [u8]| Some(OUTBOX - PREFIX - 1);
        assert_eq!(framing.answer(long), (Pause::Full, 2));
        assert!(framing.has_begun());
        framing.forget_replies();
        assert_eq!(framing.answer(long), (Pause::Rest, 1));
    }
}
