//! HTML pages that pass through a proxy, with their links rewritten on the fly. At most one tag is kept in
//! memory, because requests to proxies are not counted against the limits on requests in flight.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::write::{GzEncoder, MultiGzDecoder};
use http_body::Frame;

use super::backend::Relayed;
use super::rewrite::Rewriter;
use crate::respond::gzip;

/// Longer tags, for example with embedded images, are passed on unchanged.
const LARGEST_TAG: usize = 64 << 10;
/// Bytes of a page that are rewritten at once. The limit for compressed pages is lower because they can
/// expand a thousandfold.
const SLICE: usize = 64 << 10;
const ZIPPED_SLICE: usize = 4 << 10;

/// Rewrites the links of one page.
pub struct Links {
    rewriter: Rewriter,
    within: Within,
    /// Input that cannot be processed before more input arrives.
    held: Vec<u8>,
    /// Length of `held` before it is parsed again. Without it, a tag that arrives byte by byte would be
    /// parsed from its start for each byte.
    enough: usize,
}

enum Within {
    Text,
    Comment,
    /// Raw text that ends with this end tag.
    Raw(String),
}

impl Links {
    pub fn new(rewriter: Rewriter) -> Self {
        Links { rewriter, within: Within::Text, held: Vec::new(), enough: 0 }
    }

    /// Rewrites a complete page.
    pub fn rewritten(rewriter: Rewriter, page: &[u8]) -> Vec<u8> {
        let mut links = Links::new(rewriter);
        let mut written = Vec::with_capacity(page.len());
        links.push(page, &mut written);
        links.finish(&mut written);
        written
    }

    /// Processes a chunk of the page and writes the finished output.
    pub fn push(&mut self, piece: &[u8], written: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        if self.held.len() >= self.enough {
            self.write(false, written);
        }
    }

    /// Writes the rest at the end of the page.
    pub fn finish(&mut self, written: &mut Vec<u8>) {
        self.write(true, written);
    }

    fn write(&mut self, is_end: bool, written: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        self.enough = 0;
        while !rest.is_empty() {
            let length = match &self.within {
                Within::Text => self.text(rest, is_end, written),
                Within::Comment => self.up_to(rest, b"-->", 3, is_end, written),
                Within::Raw(end) => {
                    let end = end.clone();
                    self.up_to(rest, end.as_bytes(), 0, is_end, written)
                }
            };
            match length {
                Some(length) => rest = &rest[length..],
                None => break,
            }
        }
        self.held = rest.to_vec();
    }

    /// Writes text or the next tag. Returns the number of bytes of `rest` that were consumed, `None` if more
    /// input is needed.
    fn text(&mut self, rest: &[u8], is_end: bool, written: &mut Vec<u8>) -> Option<usize> {
        if rest[0] != b'<' {
            let length = rest.iter().position(|byte| *byte == b'<').unwrap_or(rest.len());
            written.extend_from_slice(&rest[..length]);
            return Some(length);
        }
        if !is_end && rest.len() < 4 && b"<!--".starts_with(rest) {
            return None;
        }
        if rest.starts_with(b"<!--") {
            self.within = Within::Comment;
            written.extend_from_slice(b"<!");
            return Some(2);
        }
        if !rest.get(1).is_some_and(u8::is_ascii_alphabetic) {
            written.push(b'<');
            return Some(1);
        }
        let before = written.len();
        if let Some(tag) = self.rewriter.tag(rest, written) {
            if let Some(element) = tag.raw {
                self.within = Within::Raw(format!("</{element}"));
            }
            return Some(tag.length);
        }
        if is_end {
            return Some(rest.len());
        }
        written.truncate(before);
        if rest.len() > LARGEST_TAG {
            written.extend_from_slice(rest);
            return Some(rest.len());
        }
        self.enough = 2 * rest.len();
        None
    }

    /// Copies content that is not HTML up to `end`, including `with` bytes of `end`.
    fn up_to(
        &mut self,
        rest: &[u8],
        end: &[u8],
        with: usize,
        is_end: bool,
        written: &mut Vec<u8>,
    ) -> Option<usize> {
        let found = rest.windows(end.len()).position(|window| window.eq_ignore_ascii_case(end));
        let length = match found {
            Some(at) => {
                self.within = Within::Text;
                at + with
            }
            None if is_end => rest.len(),
            // The input may end with the start of `end`.
            None => rest.len().saturating_sub(end.len() - 1),
        };
        written.extend_from_slice(&rest[..length]);
        (found.is_some() || length > 0).then_some(length)
    }
}

/// Rewrites decompressed input and compresses the output.
struct Zipped {
    links: Links,
    encoder: GzEncoder<Vec<u8>>,
}

impl Zipped {
    fn encode(&mut self, plain: &[u8]) -> io::Result<()> {
        self.encoder.write_all(plain)
    }
}

impl Write for Zipped {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let mut plain = Vec::with_capacity(piece.len());
        self.links.push(piece, &mut plain);
        self.encode(&plain)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}

enum Coding {
    Plain(Links),
    Gzip(Box<MultiGzDecoder<Zipped>>),
}

impl Coding {
    fn push(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Coding::Plain(links) => {
                let mut written = Vec::with_capacity(piece.len());
                links.push(piece, &mut written);
                Ok(written)
            }
            Coding::Gzip(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
                Ok(std::mem::take(decoder.get_mut().encoder.get_mut()))
            }
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        let mut written = Vec::new();
        match self {
            Coding::Plain(links) => links.finish(&mut written),
            Coding::Gzip(decoder) => {
                decoder.try_finish()?;
                let zipped = decoder.get_mut();
                zipped.links.finish(&mut written);
                zipped.encode(&written)?;
                zipped.encoder.try_finish()?;
                written = std::mem::take(zipped.encoder.get_mut());
            }
        }
        Ok(written)
    }
}

/// The body of a response that is an HTML page.
pub struct Page {
    body: Relayed,
    coding: Coding,
    /// Input that has not been processed.
    arrived: Bytes,
    /// Whether any data arrived: a response to HEAD is empty with any encoding.
    has_content: bool,
    is_done: bool,
}

impl Page {
    pub fn new(body: Relayed, rewriter: Rewriter, is_zipped: bool) -> Self {
        let links = Links::new(rewriter);
        let coding = match is_zipped {
            true => Coding::Gzip(Box::new(MultiGzDecoder::new(Zipped { links, encoder: gzip() }))),
            false => Coding::Plain(links),
        };
        Page { body, coding, arrived: Bytes::new(), has_content: false, is_done: false }
    }

    /// Returns the output to send. A page with invalid gzip data ends without a gzip trailer, so that the
    /// client detects that it is incomplete.
    fn passed_on(&mut self, written: io::Result<Vec<u8>>) -> Option<Bytes> {
        match written {
            Ok(written) => (!written.is_empty()).then(|| Bytes::from(written)),
            Err(error) => {
                tracing::debug!(%error, "HTML page from a proxied backend is not valid gzip");
                self.is_done = true;
                None
            }
        }
    }
}

impl http_body::Body for Page {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let page = &mut *self;
        while !page.is_done {
            if !page.arrived.is_empty() {
                let most = if matches!(page.coding, Coding::Plain(_)) { SLICE } else { ZIPPED_SLICE };
                let slice = page.arrived.split_to(page.arrived.len().min(most));
                let written = page.coding.push(&slice);
                if let Some(written) = page.passed_on(written) {
                    return Poll::Ready(Some(Ok(Frame::data(written))));
                }
                // Yield to other tasks before the next chunk.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match std::task::ready!(Pin::new(&mut page.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        page.has_content |= !data.is_empty();
                        page.arrived = data;
                    }
                    // Trailers are dropped: they would have to wait for the end of the page, and browsers
                    // ignore them.
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    page.is_done = true;
                    let written = if page.has_content { page.coding.finish() } else { Ok(Vec::new()) };
                    if let Some(written) = page.passed_on(written) {
                        return Poll::Ready(Some(Ok(Frame::data(written))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rewrite::tests::rewriter;
    use super::*;

    #[test]
    fn links_in_pages_are_rewritten() {
        for (page, expected) in [
            (r#"<a href="/rewriteme">test</a>"#, r#"<a href="/p/proxy/rewriteme">test</a>"#),
            ("<IMG alt=/x Src=/y>", "<IMG alt=/x Src=\"/p/proxy/y\">"),
            ("<a class=x href = '/y' >", "<a class=x href = '/p/proxy/y' >"),
            ("<p href=\"/x\">1 < 2 </p>", "<p href=\"/x\">1 < 2 </p>"),
            (
                "<!-- <a href=\"/x\"> --><a\nhref=\"/x\"/>",
                "<!-- <a href=\"/x\"> --><a\nhref=\"/p/proxy/x\"/>",
            ),
            (
                "<script src=\"/s.js\">if (a<b) { \"<a href='/x'>\" }</SCRIPT><a href=/x>",
                "<script src=\"/p/proxy/s.js\">if (a<b) { \"<a href='/x'>\" }</SCRIPT><a href=\"/p/proxy/x\">",
            ),
            ("<a disabled href=\"/x\">", "<a disabled href=\"/p/proxy/x\">"),
            ("<a href=\"/x", "<a href=\"/x"),
            ("<a href=\"/x><img src=/y>", "<a href=\"/x><img src=/y>"),
            ("<a href=", "<a href="),
            ("<", "<"),
        ] {
            let whole = Links::rewritten(rewriter(), page.as_bytes());
            assert_eq!(String::from_utf8(whole).unwrap(), expected, "{page}");
            let mut links = Links::new(rewriter());
            let mut bit_by_bit = Vec::new();
            page.bytes().for_each(|byte| links.push(&[byte], &mut bit_by_bit));
            links.finish(&mut bit_by_bit);
            assert_eq!(String::from_utf8(bit_by_bit).unwrap(), expected, "{page}, one byte at a time");
        }
    }

    #[test]
    fn at_most_one_tag_is_buffered() {
        let mut links = Links::new(rewriter());
        let mut written = Vec::new();
        let image =
            format!("<img src=\"data:image/png;base64,{}\"><a href=\"/x\">", "A".repeat(8 * LARGEST_TAG));
        for piece in image.as_bytes().chunks(1000) {
            links.push(piece, &mut written);
            assert!(links.held.len() <= 2 * LARGEST_TAG + 1000);
        }
        links.finish(&mut written);
        let expected = image.replace("/x", "/p/proxy/x");
        assert!(written == expected.as_bytes(), "only the link is rewritten");
    }
}
