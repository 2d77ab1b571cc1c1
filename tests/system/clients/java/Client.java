import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.stream.Collectors;

/**
 * Resolves a name every 200 ms, and prints the addresses as a line of JSON. The argument is the key.
 */
class Client {
    private static final String HOST = "web.prod.global";

    public static void main(String[] arguments) throws InterruptedException {
        while (true) {
            System.out.println("{\"" + arguments[0] + "\":" + resolve() + "}");
            Thread.sleep(200);
        }
    }

    private static String resolve() {
        try {
            return Arrays.stream(InetAddress.getAllByName(HOST))
                    .map(address -> '"' + address.getHostAddress() + '"')
                    .collect(Collectors.joining(",", "[", "]"));
        } catch (UnknownHostException error) {
            return '"' + error.getMessage() + '"';
        }
    }
}
