package oracle;

import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.store.file.DLedgerMmapFileStore;
import java.io.OutputStream;
import java.io.PrintStream;

/** Loads and recovers the log of a DLedger member, and prints the number of its last entry and the offset after it. */
public class Ledger {
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        DLedgerConfig config = new DLedgerConfig();
        config.setStoreBaseDir(args[0]);
        config.setSelfId("n0");
        config.setGroup("broker-a");
        config.setPeers("n0-127.0.0.1:20911");
        config.setMappedFileSizeForEntryData(Integer.parseInt(args[1]));
        DLedgerMmapFileStore store = new DLedgerMmapFileStore(config, new MemberState(config));
        store.load();
        store.recover();
        out.println(store.getLedgerEndIndex() + " " + store.getWritePos());
        out.flush();
        Runtime.getRuntime().halt(0);
    }
}
