-- SPDX-License-Identifier: Apache-2.0
-- The TPC-C mix for sysbench 1.0: commands prepare, run and check.
--
-- Written from the TPC Benchmark C specification, revision 5.11: tables (clause 1.3), population (4.3), the five
-- transactions (2.4 to 2.8), non-uniform random numbers (2.1.6), the mix as a deck of cards (5.2.4.2) and the
-- consistency conditions (3.3.2). There are no terminals and no keying or think times, so a warehouse does more than
-- the 12.86 New-Orders a minute that the specification allows: figures compare machines, they are no TPC results.
-- With --scale=N every table but WAREHOUSE and DISTRICT has an N-th of its rows. Sums and counts have more digits than
-- clause 1.3 asks for: without think times a warehouse takes its 10^10 within hours.

local ffi_random = sysbench.rand.uniform

sysbench.cmdline.options = {
   warehouses = {"Number of warehouses", 1},
   scale = {"Divisor of the number of items and of customers per district", 1},
}

local DISTRICTS = 10
local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

local function items() return math.floor(100000 / sysbench.opt.scale) end
local function customers() return math.floor(3000 / sysbench.opt.scale) end

local function random(low, high) return ffi_random(low, high) end

-- C of NURand: one constant for a run; 2.1.6.1 asks for a distance from the load's in C_LAST.
local C_LAST_LOAD, C_LAST_RUN, C_ID, OL_I_ID = 91, 171, 259, 7911

local function nurand(a, c, low, high)
   return (bit.bor(random(0, a), random(low, high)) + c) % (high - low + 1) + low
end

local function last_name(number)
   return SYLLABLES[math.floor(number / 100) + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] .. SYLLABLES[number % 10 + 1]
end

local LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
local function text(low, high)
   local made = {}
   for at = 1, random(low, high) do
      local letter = random(1, #LETTERS)
      made[at] = LETTERS:sub(letter, letter)
   end
   return table.concat(made)
end

local function digits(count)
   local made = {}
   for at = 1, count do made[at] = tostring(random(0, 9)) end
   return table.concat(made)
end

local function original(low, high)
   local made = text(low, high)
   if random(1, 10) > 1 then return made end
   local at = random(1, #made - 8)
   return made:sub(1, at - 1) .. "ORIGINAL" .. made:sub(at + 8)
end

local function address()
   return string.format("'%s','%s','%s','%s','%s11111'", text(10, 20), text(10, 20), text(10, 20), text(2, 2), digits(4))
end

local TABLES = {
   [[warehouse (w_id SMALLINT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20),
      w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(16,2), PRIMARY KEY (w_id))]],
   [[district (d_id TINYINT NOT NULL, d_w_id SMALLINT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20),
      d_street_2 VARCHAR(20), d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), d_tax DECIMAL(4,4),
      d_ytd DECIMAL(16,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))]],
   [[customer (c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id SMALLINT NOT NULL, c_first VARCHAR(16),
      c_middle CHAR(2), c_last VARCHAR(16), c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), c_city VARCHAR(20),
      c_state CHAR(2), c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2), c_credit_lim DECIMAL(12,2),
      c_discount DECIMAL(4,4), c_balance DECIMAL(16,2), c_ytd_payment DECIMAL(16,2), c_payment_cnt INT,
      c_delivery_cnt INT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id),
      KEY by_name (c_w_id, c_d_id, c_last, c_first))]],
   [[history (h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT, h_c_d_id TINYINT, h_c_w_id SMALLINT, h_d_id TINYINT,
      h_w_id SMALLINT, h_date DATETIME, h_amount DECIMAL(6,2), h_data VARCHAR(24), PRIMARY KEY (h_id))]],
   [[new_orders (no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id SMALLINT NOT NULL,
      PRIMARY KEY (no_w_id, no_d_id, no_o_id))]],
   [[orders (o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id SMALLINT NOT NULL, o_c_id INT, o_entry_d DATETIME,
      o_carrier_id TINYINT, o_ol_cnt TINYINT, o_all_local TINYINT, PRIMARY KEY (o_w_id, o_d_id, o_id),
      KEY by_customer (o_w_id, o_d_id, o_c_id, o_id))]],
   [[order_line (ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id SMALLINT NOT NULL, ol_number TINYINT NOT NULL,
      ol_i_id INT, ol_supply_w_id SMALLINT, ol_delivery_d DATETIME, ol_quantity TINYINT, ol_amount DECIMAL(6,2),
      ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))]],
   [[item (i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50),
      PRIMARY KEY (i_id))]],
   [[stock (s_i_id INT NOT NULL, s_w_id SMALLINT NOT NULL, s_quantity SMALLINT, s_dist_01 CHAR(24), s_dist_02 CHAR(24),
      s_dist_03 CHAR(24), s_dist_04 CHAR(24), s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24),
      s_dist_08 CHAR(24), s_dist_09 CHAR(24), s_dist_10 CHAR(24), s_ytd INT, s_order_cnt INT, s_remote_cnt INT,
      s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))]],
}

local connection

local function connect()
   connection = sysbench.sql.driver():connect()
end

local function many(into, count, row)
   connection:bulk_insert_init("INSERT INTO " .. into .. " VALUES ")
   for at = 1, count do connection:bulk_insert_next("(" .. row(at) .. ")") end
   connection:bulk_insert_done()
end

local function load_stock(w)
   many("stock", items(), function(i)
      local dists = {}
      for d = 1, 10 do dists[d] = "'" .. text(24, 24) .. "'" end
      return string.format("%d,%d,%d,%s,0,0,0,'%s'", i, w, random(10, 100), table.concat(dists, ","), original(26, 50))
   end)
end

local function load_customers(w, d)
   many("customer", customers(), function(c)
      local number = c <= 1000 and c - 1 or nurand(255, C_LAST_LOAD, 0, 999)
      return string.format("%d,%d,%d,'%s','OE','%s',%s,'%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s'", c, d, w, text(8, 16),
         last_name(number), address(), digits(16), random(1, 10) == 1 and "BC" or "GC", random(0, 5000) / 1e4, text(300, 500))
   end)
   many("history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)", customers(), function(c)
      return string.format("%d,%d,%d,%d,%d,NOW(),10,'%s'", c, d, w, d, w, text(12, 24))
   end)
end

local function load_orders(w, d)
   local count, permutation, lines = customers(), {}, {}
   for c = 1, count do permutation[c] = c end
   for c = count, 2, -1 do
      local other = random(1, c)
      permutation[c], permutation[other] = permutation[other], permutation[c]
   end
   local delivered = math.floor(count * 0.7)
   many("orders", count, function(o)
      lines[o] = random(5, 15)
      local carrier = o <= delivered and tostring(random(1, 10)) or "NULL"
      return string.format("%d,%d,%d,%d,NOW(),%s,%d,1", o, d, w, permutation[o], carrier, lines[o])
   end)
   connection:bulk_insert_init("INSERT INTO order_line VALUES ")
   for o = 1, count do
      for number = 1, lines[o] do
         local date = o <= delivered and "NOW()" or "NULL"
         local amount = o <= delivered and 0 or random(1, 999999) / 100
         connection:bulk_insert_next(string.format("(%d,%d,%d,%d,%d,%d,%s,5,%.2f,'%s')", o, d, w, number,
            random(1, items()), w, date, amount, text(24, 24)))
      end
   end
   connection:bulk_insert_done()
   many("new_orders", count - delivered, function(at) return string.format("%d,%d,%d", delivered + at, d, w) end)
end

function prepare()
   if sysbench.opt.scale > 100 then error("--scale must be 100 at most: 30 customers per district") end
   connect()
   for _, definition in ipairs(TABLES) do connection:query("CREATE TABLE " .. definition .. " ENGINE=InnoDB") end
   connection:query("SET unique_checks=0")
   many("item", items(), function(i)
      return string.format("%d,%d,'%s',%.2f,'%s'", i, random(1, 10000), text(14, 24), random(100, 10000) / 100, original(26, 50))
   end)
   for w = 1, sysbench.opt.warehouses do
      connection:query(string.format("INSERT INTO warehouse VALUES (%d,'%s',%s,%.4f,%d)", w, text(6, 10), address(),
         random(0, 2000) / 1e4, DISTRICTS * customers() * 10))
      load_stock(w)
      for d = 1, DISTRICTS do
         connection:query(string.format("INSERT INTO district VALUES (%d,%d,'%s',%s,%.4f,%d,%d)", d, w, text(6, 10), address(),
            random(0, 2000) / 1e4, customers() * 10, customers() + 1))
         load_customers(w, d)
         load_orders(w, d)
      end
   end
end

-- The transactions -----------------------------------------------------------------------------------------------------

local function row(statement, ...)
   local result = connection:query(string.format(statement, ...))
   local found = result and result.nrows > 0 and result:fetch_row() or nil
   return found
end

local function change(statement, ...) connection:query(string.format(statement, ...)) end

local function some_customer() return nurand(1023, C_ID, 1, customers()) end
local function some_name() return last_name(nurand(255, C_LAST_RUN, 0, math.min(999, customers() - 1))) end
local function other_warehouse(home)
   if sysbench.opt.warehouses == 1 then return home end
   local other = random(1, sysbench.opt.warehouses - 1)
   return other >= home and other + 1 or other
end

-- 2.4; true when the last item is unused, as one in a hundred is, and the transaction is rolled back.
local function new_order(w)
   local d, c, count = random(1, DISTRICTS), some_customer(), random(5, 15)
   local wrong = random(1, 100) == 1
   local lines, all_local = {}, 1
   for number = 1, count do
      local supply = random(1, 100) == 1 and other_warehouse(w) or w
      if supply ~= w then all_local = 0 end
      local item = wrong and number == count and items() + 1 or nurand(8191, OL_I_ID, 1, items())
      lines[number] = {item = item, supply = supply, quantity = random(1, 10)}
   end
   change("BEGIN")
   row("SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id=%d AND c_w_id=w_id AND c_d_id=%d AND c_id=%d", w, d, c)
   local o = tonumber(row("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id=%d AND d_id=%d FOR UPDATE", w, d)[1])
   change("UPDATE district SET d_next_o_id=%d WHERE d_w_id=%d AND d_id=%d", o + 1, w, d)
   change("INSERT INTO orders VALUES (%d,%d,%d,%d,NOW(),NULL,%d,%d)", o, d, w, c, count, all_local)
   change("INSERT INTO new_orders VALUES (%d,%d,%d)", o, d, w)
   for number, line in ipairs(lines) do
      local price = row("SELECT i_price, i_name, i_data FROM item WHERE i_id=%d", line.item)
      if not price then
         if line.item <= items() then error("item " .. line.item .. " is not there: the data were changed") end
         change("ROLLBACK")
         return true
      end
      local stock = row("SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_i_id=%d AND s_w_id=%d FOR UPDATE", d, line.item, line.supply)
      local left = tonumber(stock[1]) - line.quantity
      if left < 10 then left = left + 91 end
      change("UPDATE stock SET s_quantity=%d, s_ytd=s_ytd+%d, s_order_cnt=s_order_cnt+1, s_remote_cnt=s_remote_cnt+%d WHERE s_i_id=%d AND s_w_id=%d",
         left, line.quantity, line.supply == w and 0 or 1, line.item, line.supply)
      change("INSERT INTO order_line VALUES (%d,%d,%d,%d,%d,%d,NULL,%d,%.2f,'%s')", o, d, w, number, line.item, line.supply,
         line.quantity, line.quantity * tonumber(price[1]), stock[2])
   end
   change("COMMIT")
   return false
end

-- 2.5.2.2, 2.6.2.2: of those with the name, ordered by first name, the middle one (rounded up).
local function by_name(w, d, columns)
   local name = some_name()
   local count = tonumber(row("SELECT COUNT(*) FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_last='%s'", w, d, name)[1])
   if count == 0 then return nil end
   return row("SELECT c_id, %s FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_last='%s' ORDER BY c_first LIMIT %d,1", columns,
      w, d, name, math.ceil(count / 2) - 1)
end

local function customer(w, d, columns)
   local found = random(1, 100) <= 60 and by_name(w, d, columns) or nil
   return found or row("SELECT c_id, %s FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", columns, w, d, some_customer())
end

local function payment(w)
   local d, amount = random(1, DISTRICTS), random(100, 500000) / 100
   local cw, cd = w, d
   if random(1, 100) > 85 then cw, cd = other_warehouse(w), random(1, DISTRICTS) end
   change("BEGIN")
   change("UPDATE warehouse SET w_ytd=w_ytd+%.2f WHERE w_id=%d", amount, w)
   local house = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id=%d", w)
   change("UPDATE district SET d_ytd=d_ytd+%.2f WHERE d_w_id=%d AND d_id=%d", amount, w, d)
   local place = row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id=%d AND d_id=%d", w, d)
   local who = customer(cw, cd, "c_credit, c_first, c_middle, c_last, c_phone, c_since, c_credit_lim, c_discount, c_balance")
   local c, more = tonumber(who[1]), ""
   if who[2] == "BC" then
      more = string.format(", c_data=LEFT(CONCAT('%d %d %d %d %d %.2f ', c_data), 500)", c, cd, cw, d, w, amount)
   end
   change("UPDATE customer SET c_balance=c_balance-%.2f, c_ytd_payment=c_ytd_payment+%.2f, c_payment_cnt=c_payment_cnt+1%s WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d",
      amount, amount, more, cw, cd, c)
   change("INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (%d,%d,%d,%d,%d,NOW(),%.2f,'%s    %s')",
      c, cd, cw, d, w, amount, house[1], place[1])
   change("COMMIT")
end

local function order_status(w)
   local d = random(1, DISTRICTS)
   change("BEGIN")
   local who = customer(w, d, "c_balance, c_first, c_middle, c_last")
   local order = row("SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id=%d AND o_d_id=%d AND o_c_id=%d ORDER BY o_id DESC LIMIT 1",
      w, d, tonumber(who[1]))
   if order then
      change("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d",
         w, d, tonumber(order[1]))
   end
   change("COMMIT")
end

local function delivery(w)
   local carrier = random(1, 10)
   change("BEGIN")
   for d = 1, DISTRICTS do
      local oldest = row("SELECT no_o_id FROM new_orders WHERE no_w_id=%d AND no_d_id=%d ORDER BY no_o_id LIMIT 1 FOR UPDATE", w, d)
      if oldest then
         local o = tonumber(oldest[1])
         change("DELETE FROM new_orders WHERE no_w_id=%d AND no_d_id=%d AND no_o_id=%d", w, d, o)
         local c = tonumber(row("SELECT o_c_id FROM orders WHERE o_w_id=%d AND o_d_id=%d AND o_id=%d FOR UPDATE", w, d, o)[1])
         change("UPDATE orders SET o_carrier_id=%d WHERE o_w_id=%d AND o_d_id=%d AND o_id=%d", carrier, w, d, o)
         change("UPDATE order_line SET ol_delivery_d=NOW() WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", w, d, o)
         local total = row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", w, d, o)[1]
         change("UPDATE customer SET c_balance=c_balance+%s, c_delivery_cnt=c_delivery_cnt+1 WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d",
            total, w, d, c)
      end
   end
   change("COMMIT")
end

local function stock_level(w)
   local d, threshold = random(1, DISTRICTS), random(10, 20)
   change("BEGIN")
   local next_order = tonumber(row("SELECT d_next_o_id FROM district WHERE d_w_id=%d AND d_id=%d", w, d)[1])
   row("SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id<%d AND ol_o_id>=%d AND s_w_id=%d AND s_i_id=ol_i_id AND s_quantity<%d",
      w, d, next_order, next_order - 20, w, threshold)
   change("COMMIT")
end

local KINDS = {new_order = new_order, payment = payment, order_status = order_status, delivery = delivery, stock_level = stock_level}
local CARDS = {{"new_order", 10}, {"payment", 10}, {"order_status", 1}, {"delivery", 1}, {"stock_level", 1}}
local deck, current, done, rolled_back, retried, home

local function draw()
   if #deck == 0 then
      for _, card in ipairs(CARDS) do
         for _ = 1, card[2] do deck[#deck + 1] = card[1] end
      end
      for at = #deck, 2, -1 do
         local other = random(1, at)
         deck[at], deck[other] = deck[other], deck[at]
      end
   end
   return table.remove(deck)
end

function thread_init()
   connect()
   deck, done, rolled_back, retried = {}, {}, 0, 0
   home = sysbench.tid % sysbench.opt.warehouses + 1
end

function event()
   if current then -- a deadlock or a lock that was waited for too long: the same transaction again
      connection:query("ROLLBACK")
      retried = retried + 1
   else
      current = draw()
   end
   if KINDS[current](home) then rolled_back = rolled_back + 1 end
   done[current] = (done[current] or 0) + 1
   current = nil
end

function thread_done()
   print(string.format("tpcc thread %d: new_order=%d payment=%d order_status=%d delivery=%d stock_level=%d rolled_back=%d retried=%d",
      sysbench.tid, done.new_order or 0, done.payment or 0, done.order_status or 0, done.delivery or 0, done.stock_level or 0,
      rolled_back, retried))
   connection:disconnect()
end

-- Consistency conditions 1 to 10 and 12 (11 holds for a fresh load only): each query counts what violates one. What is not
-- there at all (NULL) equals nothing (<=>). ------------------------------------------------------------------------------

local CONDITIONS = {
   {1, "SELECT COUNT(*) FROM warehouse WHERE NOT w_ytd <=> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)"},
   {2, [[SELECT COUNT(*) FROM district WHERE NOT d_next_o_id - 1 <=> (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
         OR d_next_o_id - 1 <> (SELECT IFNULL(MAX(no_o_id), d_next_o_id - 1) FROM new_orders WHERE no_w_id = d_w_id AND no_d_id = d_id)]]},
   {3, [[SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) AS gap FROM new_orders GROUP BY no_w_id, no_d_id) AS found
         WHERE gap <> 0]]},
   {4, [[SELECT COUNT(*) FROM district WHERE NOT (SELECT SUM(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
         <=> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)]]},
   {5, [[SELECT COUNT(*) FROM orders LEFT JOIN new_orders ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)]]},
   {6, [[SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS lines_ FROM order_line
         GROUP BY ol_w_id, ol_d_id, ol_o_id) AS counted ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE o_ol_cnt <> IFNULL(lines_, 0)]]},
   {7, [[SELECT COUNT(*) FROM order_line, orders WHERE o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
         AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)]]},
   {8, "SELECT COUNT(*) FROM warehouse WHERE NOT w_ytd <=> (SELECT SUM(h_amount) FROM history WHERE h_w_id = w_id)"},
   {9, [[SELECT COUNT(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS summed
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> IFNULL(paid, 0)]]},
   {10, [[SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS ordered FROM orders, order_line
         WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS goods
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid
         FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS payments ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
         WHERE c_balance <> IFNULL(ordered, 0) - IFNULL(paid, 0)]]},
   {12, [[SELECT COUNT(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS ordered FROM orders, order_line
         WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS goods
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id WHERE c_balance + c_ytd_payment <> IFNULL(ordered, 0)]]},
}

function check()
   connect()
   for _, condition in ipairs(CONDITIONS) do
      local wrong = tonumber(row(condition[2])[1])
      print(string.format("tpcc condition %d: %d violations", condition[1], wrong))
   end
end

sysbench.cmdline.commands = {prepare = {prepare}, check = {check}}
