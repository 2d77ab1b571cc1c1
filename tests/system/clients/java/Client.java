import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.stream.Collectors;

/**
 * Resolves a name every 200 ms, and prints the addresses as a line of JSON. The argument is the key. With a second one, the
 * name is in capital letters, so that a test can tell the questions of two programs apart.
 */
class Client {
    private static final String HOST = "web.prod.global";

    public static void main(String[] arguments) throws InterruptedException {
        String host = arguments.length == 1 ? HOST : HOST.toUpperCase();
        while (true) {
            System.out.println("{\"" + arguments[0] + "\":" + resolve(host) + "}");
            Thread.sleep(200);
        }
    }

    private static String resolve(String host) {
        try {
            return Arrays.stream(InetAddress.getAllByName(host))
                    .map(address -> '"' + address.getHostAddress() + '"')
                    .collect(Collectors.joining(",", "[", "]"));
        } catch (UnknownHostException error) {
            return '"' + error.getMessage() + '"';
        }
    }
}
