//! All transports, with persistent connections and many concurrent messages.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use hickory_proto::op::Message;
use support::certificates::Identity;
use support::quic::Quic;
use support::server::Server;
use support::tls::{Client, Stream};
use support::wait::TIMEOUT;
use support::wire::{frame, read_datagram, read_framed};

/// One connection of each kind.
pub struct Transports {
    udp: UdpSocket,
    tcp: TcpStream,
    tls: Stream,
    doq: Client,
    quic: SocketAddr,
}

/// The replies to one message.
pub struct Replies {
    pub udp: Vec<u8>,
    pub tcp: Vec<u8>,
    pub tls: Vec<u8>,
    /// Reply over QUIC, if the library of that listener can parse the message. The library itself answers other
    /// messages.
    pub quic: Option<Vec<u8>>,
}

impl Transports {
    pub fn connect(server: &Server, issued: &Identity) -> Self {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(server.dns).unwrap();
        udp.set_read_timeout(Some(TIMEOUT)).unwrap();
        let tcp = TcpStream::connect(server.dns).unwrap();
        tcp.set_read_timeout(Some(TIMEOUT)).unwrap();
        tcp.set_nodelay(true).unwrap();
        Self {
            udp,
            tcp,
            tls: issued.tls(server.address("tls")),
            doq: issued.client(&["doq"]),
            quic: server.address("quic"),
        }
    }

    /// Sends all messages over each transport.
    pub fn ask(&mut self, batch: &[Vec<u8>]) -> Vec<Replies> {
        let framed: Vec<u8> = batch.iter().flat_map(|packet| frame(packet)).collect();
        // The server closes connections of clients that do not read replies, so each reply is read before the next
        // query.
        self.tcp.write_all(&framed).unwrap();
        let tcp = batch.iter().map(|_| read_framed(&mut self.tcp).unwrap());
        let tcp: Vec<_> = tcp.collect();
        self.tls.write_all(&framed).unwrap();
        self.tls.flush().unwrap();
        let tls = batch.iter().map(|_| read_framed(&mut self.tls).unwrap());
        let tls: Vec<_> = tls.collect();
        let quic = self.ask_quic(batch);

        let streams = tcp.into_iter().zip(tls).zip(quic);
        let replies = batch
            .iter()
            .zip(streams)
            .map(|(asked, ((tcp, tls), quic))| {
                self.udp.send(asked).unwrap();
                Replies {
                    udp: read_datagram(&self.udp).unwrap(),
                    tcp,
                    tls,
                    quic,
                }
            });
        replies.collect()
    }

    /// Sends the messages that are valid over QUIC over a new connection.
    fn ask_quic(&self, batch: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let is_readable = |asked: &Vec<u8>| Message::from_vec(asked).is_ok();
        let asked: Vec<bool> = batch.iter().map(is_readable).collect();
        let readable = batch.iter().zip(&asked).filter(|(_, is_asked)| **is_asked);
        // The identifier is 0 (RFC 9250 section 4.2.1).
        let packets: Vec<_> = readable
            .map(|(one, _)| [&[0, 0], &one[2..]].concat())
            .collect();
        let connection = Quic::connect(&self.doq, self.quic).unwrap();
        let mut replies = connection.ask_all(&packets).into_iter();
        let replies = asked.iter().map(|is_asked| {
            let reply = is_asked.then(|| replies.next().unwrap());
            reply.map(|reply| reply.unwrap())
        });
        replies.collect()
    }
}
