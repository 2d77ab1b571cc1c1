//! The minimum work of a server: receive a batch, look up each question in a hash table, copy the prepared reply behind
//! the query's identifier, send the batch. The difference to a real server is the cost of the server itself.
//!
//! It reads no header and no EDNS, and does not validate queries.

use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::{Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use support::output::print_line;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};

use crate::check::query;
use crate::data::read_questions;

/// Datagrams per call, as in global-dns.
const BATCH: usize = 32;
/// Maximum octets of a query and of a reply.
const OCTETS: usize = 4096;
/// Length of the header, which precedes the question.
const HEADER: usize = 12;

/// Prepared replies by question: name in lower case, type, class.
type Replies = HashMap<Vec<u8>, Vec<u8>, foldhash::fast::RandomState>;

/// Answers these questions with the answers of `from`, until the process is killed.
///
/// # Errors
///
/// If a question has no answer, or the socket fails.
pub(crate) fn serve(listen: SocketAddr, from: SocketAddr, questions: &Path) -> Result<()> {
    let replies = prepare_replies(from, questions)?;
    let socket = UdpSocket::bind(listen)?;
    print_line(&format!("ready with {} answers", replies.len()));
    let socket = socket.as_raw_fd();
    let mut queries = vec![[0_u8; OCTETS + 64]; BATCH];
    let mut answers = vec![[0_u8; OCTETS + 64]; BATCH];
    let mut received = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let mut sent = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    loop {
        let mut arrived = [(0, None); BATCH];
        let mut slices: [_; BATCH] = queries
            .iter_mut()
            .map(|query| [IoSliceMut::new(query)])
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| Errno::EINVAL)?;
        let messages = recvmmsg(
            socket,
            &mut received,
            &mut slices,
            MsgFlags::MSG_WAITFORONE,
            None,
        );
        let mut count = 0;
        for (to, message) in arrived.iter_mut().zip(messages?) {
            *to = (message.bytes, message.address);
            count += 1;
        }
        let mut lengths = [0; BATCH];
        let mut clients = [None; BATCH];
        let mut ready = 0;
        for (query, (length, client)) in queries.iter_mut().zip(&arrived[..count]) {
            let Some(reply) = find(&replies, &mut query[..*length]) else {
                continue;
            };
            let answer = &mut answers[ready];
            answer[..reply.len()].copy_from_slice(reply);
            answer[..2].copy_from_slice(&query[..2]);
            (lengths[ready], clients[ready]) = (reply.len(), *client);
            ready += 1;
        }
        let mut outgoing = [[IoSlice::new(&[])]; BATCH];
        for (slot, (answer, length)) in outgoing.iter_mut().zip(answers.iter().zip(lengths)) {
            *slot = [IoSlice::new(&answer[..length])];
        }
        let mut done = 0;
        while done < ready {
            let (rest, to) = (&outgoing[done..ready], &clients[done..ready]);
            let flags = MsgFlags::empty();
            done += sendmmsg(socket, &mut sent, rest, to, [], flags)?
                .count()
                .max(1);
        }
    }
}

fn prepare_replies(from: SocketAddr, questions: &Path) -> Result<Replies> {
    let mut replies = Replies::default();
    for question in read_questions(questions)? {
        let query = query(&question).0;
        let reply = exchange(from, &query, Transport::Udp, TIMEOUT)?;
        let end = question_end(&query).unwrap_or(HEADER);
        ensure!(reply.len() <= OCTETS, "a reply has {} octets", reply.len());
        replies.insert(query[HEADER..end].to_ascii_lowercase(), reply);
    }
    Ok(replies)
}

fn find<'r>(replies: &'r Replies, query: &mut [u8]) -> Option<&'r [u8]> {
    let end = question_end(query)?;
    let question = &mut query[HEADER..end];
    question.make_ascii_lowercase();
    replies.get(question).map(Vec::as_slice)
}

fn question_end(query: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1 + length;
        if length == 0 {
            return (at + 4 <= query.len()).then_some(at + 4);
        }
    }
}
