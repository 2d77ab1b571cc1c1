//! TCP (RFC 7766): any number of queries on a connection, pipelined if the client likes, answered in order.
//!
//! What has arrived is answered with one write, however many queries it holds. A connection holds a few kilobytes while
//! it waits; replies wait for a slow client up to [`OUTBOX`] octets, and no more is read until they are taken.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::accept::accept;
use super::connections::{Connections, Place};
use super::{Answerer, TCP_IDLE};
use crate::telemetry::{Ended, replaced};
use crate::wire::Transport;

/// Octets of a query that are accepted: no query needs more, and a client must not make us hold 64 KiB by a promise.
const QUERY: usize = 4096;
/// Octets of the length before a message (RFC 1035 section 4.2.2), and of the longest message.
const PREFIX: usize = 2;
const MESSAGE: usize = 65_535;
/// Octets of replies that wait to be written; one more message may come on top.
const OUTBOX: usize = 16 * 1024;
/// How long a client may take for its first query: it opened the connection in order to ask, and soon.
const FIRST: Duration = Duration::from_secs(15);
/// How long a client may take for the rest of a message that it began, and to take a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection is kept at most: clients of ours open another when they like, and none can stay for ever.
const LIFE: Duration = Duration::from_secs(3600);
/// How long a connection may be idle once the server is to stop; after that it ends as soon as no query waits.
const LEAVE: Duration = Duration::from_millis(100);
/// How long a client that never pauses can keep the server from stopping.
const LONGEST_LEAVE: Duration = Duration::from_secs(2);

/// Serves connections until `stop`; those that are open then end after what their clients have
/// sent.
pub(super) async fn serve(
    listener: TcpListener,
    answerer: Arc<Answerer>,
    connections: Connections,
    stop: CancellationToken,
) {
    let serve = |stream, client, place| {
        let connection = Connection {
            place,
            answerer: answerer.clone(),
            stop: stop.clone(),
            inbox: Inbox::default(),
            outbox: Vec::new(),
            stopped: None,
            stream,
            client,
        };
        connection.serve()
    };
    let note_end = |ended| note_end(&answerer, ended);
    accept(listener, connections, stop.clone(), serve, note_end).await;
}

/// Counts a connection whose task panicked, which ends it and no other.
fn note_end(answerer: &Answerer, ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        answerer.counters.count_panic(Transport::Tcp);
        answerer.counters.count_ended(Ended::Broken);
    }
}

/// A connection that is being served.
struct Connection {
    stream: TcpStream,
    client: SocketAddr,
    place: Place,
    answerer: Arc<Answerer>,
    stop: CancellationToken,
    /// When the server began to stop.
    stopped: Option<Instant>,
    inbox: Inbox,
    /// Replies with their lengths, not written yet.
    outbox: Vec<u8>,
}

/// Octets that have arrived and not been answered.
#[derive(Default)]
struct Inbox {
    octets: Vec<u8>,
    /// How many of them have been answered.
    done: usize,
}

/// Why no more is answered for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Replies are to be written first.
    Full,
    /// The rest of a message, or all of it, has not arrived.
    Rest,
    /// What arrived is not from a client of DNS.
    Misuse,
}

// === impl Connection ===

impl Connection {
    async fn serve(mut self) {
        let ended = match self.converse().await {
            Ok(ended) => ended,
            Err(error) => {
                debug!(client = %self.client, %error, "A connection broke");
                Ended::Broken
            }
        };
        self.answerer.counters.count_ended(ended);
    }

    /// Answers until the client is done, or takes too long.
    async fn converse(&mut self) -> io::Result<Ended> {
        self.stream.set_nodelay(true)?;
        let started = Instant::now();
        let (mut since, mut patience, mut too_long) = (started, FIRST, Ended::Idle);
        loop {
            let deadline = (since + patience).min(started + LIFE);
            match self.receive(deadline).await? {
                None => {}
                Some(Ended::Idle) if started.elapsed() >= LIFE => return Ok(Ended::Old),
                Some(Ended::Idle) => return Ok(too_long),
                Some(ended) => return Ok(ended),
            }
            let had_begun = too_long == Ended::Slow;
            let mut has_answered = false;
            let pause = loop {
                let pause = replaced(|| self.answer_some());
                if !self.outbox.is_empty() {
                    has_answered = true;
                    tokio::select! {
                        written = timeout(PATIENCE, self.stream.write_all(&self.outbox)) => match written {
                            Ok(written) => written?,
                            Err(_) => return Ok(Ended::Slow),
                        },
                        () = self.place.displaced() => return Ok(Ended::Displaced),
                    }
                    self.outbox.clear();
                }
                if pause != Pause::Full {
                    break pause;
                }
            };
            if pause == Pause::Misuse {
                return Ok(Ended::Misuse);
            }
            self.outbox.shrink_to(QUERY);
            // Neither a message that comes octet by octet nor silence after one gets more time by it.
            let has_begun = !self.inbox.is_empty();
            if has_answered || has_begun != had_begun {
                since = Instant::now();
                (patience, too_long) = match has_begun {
                    true => (PATIENCE, Ended::Slow),
                    false => (TCP_IDLE, Ended::Idle),
                };
            }
        }
    }

    /// Waits for octets. Otherwise says why the connection ends; by [`Ended::Idle`], that it is `deadline`.
    async fn receive(&mut self, deadline: Instant) -> io::Result<Option<Ended>> {
        loop {
            self.inbox.make_room();
            match self.stream.try_read_buf(&mut self.inbox.octets) {
                Ok(0) => return Ok(Some(Ended::Done)),
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let until = match self.stopped {
                None => deadline,
                Some(at) if at.elapsed() > LONGEST_LEAVE => return Ok(Some(Ended::Stopped)),
                Some(at) if at.elapsed() > LEAVE && !self.has_octets() => {
                    return Ok(Some(Ended::Stopped));
                }
                Some(_) => deadline.min(Instant::now() + LEAVE),
            };
            tokio::select! {
                ready = timeout_at(until, self.stream.readable()) => match ready {
                    Ok(ready) => ready?,
                    Err(_) if self.stopped.is_some() => return Ok(Some(Ended::Stopped)),
                    Err(_) => return Ok(Some(Ended::Idle)),
                },
                () = self.place.displaced() => return Ok(Some(Ended::Displaced)),
                // What the client has sent by now is answered still.
                () = self.stop.cancelled(), if self.stopped.is_none() => {
                    self.stopped = Some(Instant::now());
                }
            }
        }
    }

    /// Answers what has arrived whole, until the outbox is full.
    fn answer_some(&mut self) -> Pause {
        thread_local! {
            /// Room for the longest message. None of it outlives the call, so connections need not have one each.
            static MESSAGE_ROOM: RefCell<Box<[u8]>> =
                RefCell::new(vec![0; PREFIX + MESSAGE].into_boxed_slice());
        }
        let started = Instant::now();
        let mut count = 0;
        let pause = MESSAGE_ROOM.with_borrow_mut(|room| {
            let moment = self.answerer.moment(1);
            loop {
                if self.outbox.len() >= OUTBOX {
                    return Pause::Full;
                }
                let packet = match self.inbox.next() {
                    Ok(Some(packet)) => packet,
                    Ok(None) => return Pause::Rest,
                    Err(TooLong) => return Pause::Misuse,
                };
                let out = &mut room[PREFIX..];
                let over = Transport::Tcp;
                let reply = self
                    .answerer
                    .answer(&moment, packet, over, self.client, out);
                let Some(length) = reply else {
                    return Pause::Misuse;
                };
                // A message has at most 65,535 octets. Its length and itself go with one write (RFC 7766 section 8).
                room[..PREFIX].copy_from_slice(&(length as u16).to_be_bytes());
                self.outbox.extend_from_slice(&room[..PREFIX + length]);
                count += 1;
            }
        });
        if count > 0 {
            self.answerer.counters.count_time(count, started.elapsed());
            self.place.note_query();
        }
        pause
    }

    /// Tells whether something waits, in the inbox or in the kernel. What tokio remembers of the socket may be older.
    fn has_octets(&self) -> bool {
        let mut octet = [std::mem::MaybeUninit::uninit()];
        let peeked = SockRef::from(&self.stream).peek(&mut octet);
        !self.inbox.is_empty() || peeked.is_ok_and(|length| length > 0)
    }
}

/// A message was announced that is longer than any query.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

// === impl Inbox ===

impl Inbox {
    /// Takes the next whole message, if it is there.
    fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let octets = &self.octets[self.done..];
        let Some((prefix, octets)) = octets.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*prefix));
        if length > QUERY {
            return Err(TooLong);
        }
        let message = octets.get(..length);
        if message.is_some() {
            self.done += PREFIX + length;
        }
        Ok(message)
    }

    /// Forgets what has been answered, so that there is room for a whole message.
    fn make_room(&mut self) {
        self.octets.drain(..self.done);
        self.done = 0;
        self.octets
            .reserve_exact(PREFIX + QUERY - self.octets.len());
    }

    fn is_empty(&self) -> bool {
        self.done == self.octets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_they_arrive() {
        let stream = [&[0, 3, 1, 2, 3, 0, 0][..], &[0, 1, 9], &[0, 2, 7, 8]].concat();
        for step in 1..=stream.len() {
            let mut inbox = Inbox::default();
            let mut messages = Vec::new();
            for octets in stream.chunks(step) {
                inbox.make_room();
                inbox.octets.extend(octets);
                while let Ok(Some(message)) = inbox.next() {
                    messages.push(message.to_vec());
                }
            }
            assert!(inbox.is_empty());
            assert_eq!(messages, [vec![1, 2, 3], vec![], vec![9], vec![7, 8]]);
        }
    }

    #[test]
    fn an_inbox_never_grows_beyond_one_query() {
        let mut inbox = Inbox::default();
        inbox.make_room();
        inbox.octets.extend(4096_u16.to_be_bytes());
        inbox.octets.resize(PREFIX + QUERY - 1, 0);
        assert_eq!(inbox.next(), Ok(None));
        inbox.make_room();
        assert_eq!(inbox.octets.capacity(), PREFIX + QUERY);
        inbox.octets.push(0);
        assert_eq!(inbox.next().map(|m| m.map(<[u8]>::len)), Ok(Some(QUERY)));
        inbox.make_room();
        inbox.octets.extend(4097_u16.to_be_bytes());
        assert_eq!(inbox.next(), Err(TooLong));
    }
}
