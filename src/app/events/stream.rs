//! The parser of server-sent events (WHATWG HTML, section 9.2).

/// The most octets of one frame. A server that sends more is not one of ours.
const MAX_OCTETS: usize = 1 << 20;

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The type, `message` by default.
    pub(super) event: String,
    /// The data. Several lines are joined by line feeds.
    pub(super) data: String,
}

/// The octets that do not make a complete frame yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The start of a line.
    rest: Vec<u8>,
    event: String,
    data: Vec<String>,
}

// === impl Frames ===

impl Frames {
    /// Adds octets, and returns the frames that they complete.
    pub(super) fn push(&mut self, octets: &[u8]) -> Vec<Frame> {
        self.rest.extend_from_slice(octets);
        let mut frames = Vec::new();
        while let Some(end) = self.rest.iter().position(|octet| *octet == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            frames.extend(self.read_line(line.trim_end_matches(['\r', '\n'])));
        }
        if self.rest.len() > MAX_OCTETS {
            self.rest.clear();
        }
        frames
    }

    /// Reads a line. An empty line completes a frame; one without data is dropped.
    fn read_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let (event, data) = (
                std::mem::take(&mut self.event),
                std::mem::take(&mut self.data),
            );
            let event = if event.is_empty() {
                "message".to_owned()
            } else {
                event
            };
            return (!data.is_empty()).then(|| Frame {
                event,
                data: data.join("\n"),
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => self.data.push(value.to_owned()),
            _ => {} // comments, `id`, `retry`
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(event: &str, data: &str) -> Frame {
        Frame {
            event: event.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn frames_are_equal_however_they_are_split() {
        let text = ": hello\n\nid: 7\nevent: change\ndata: {\"a\":1}\n\r\nevent:reset\r\ndata:\r\n\r\ndata: é\ndata: b\n\nevent: lost\n\n";
        let expected = [
            frame("change", "{\"a\":1}"),
            frame("reset", ""),
            frame("message", "é\nb"),
        ];
        for size in [1, 2, 3, 7, text.len()] {
            let mut frames = Frames::default();
            let parts = text.as_bytes().chunks(size);
            let read: Vec<Frame> = parts.flat_map(|part| frames.push(part)).collect();
            assert_eq!(read, expected, "{size}");
        }
    }
}
