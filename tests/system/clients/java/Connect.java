import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/**
 * Sends requests to a name, each over a new connection. Each line of the input is a number of requests. It prints a line after
 * them.
 */
class Connect {
    private static final byte[] REQUEST = "GET / HTTP/1.1\r\nHost: web\r\n\r\n".getBytes(StandardCharsets.US_ASCII);

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            for (int left = Integer.parseInt(line); left > 0; left--) {
                send();
            }
            System.out.println("done");
        }
    }

    private static void send() throws IOException {
        try (Socket socket = new Socket("web.prod.global", 8080)) {
            socket.getOutputStream().write(REQUEST);
            if (socket.getInputStream().read() < 0) {
                throw new IOException("no response");
            }
        }
    }
}
